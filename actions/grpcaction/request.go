package grpcaction

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
)

// encodeCall returns an ExecuteRequest without its operation token, which is also the beginning of a
// LookupRequest: seven texts, in the order of their numbers, empty ones left
// out. It is written out here because the ledger keeps a hash of it for months,
// and protobuf promises equal bytes within one build of one library only.
func encodeCall(spec actions.Spec, call actions.Call) []byte {
	var b []byte
	for i, text := range []string{
		spec.Type, spec.Version, spec.Contract.Version,
		call.Tenant, call.OperationID, call.ProviderKey, string(call.Arguments.JSON()),
	} {
		b = appendText(b, protowire.Number(i+1), text)
	}
	return b
}

// encodeAttempt returns an ExecuteRequest with its operation token: only where
// the action type asks for one.
func encodeAttempt(spec actions.Spec, call actions.Call) []byte {
	b := encodeCall(spec, call)
	if spec.TokenAudience == "" {
		return b
	}
	return appendText(b, 8, call.OperationToken)
}

// encodeQuery returns a LookupRequest.
func encodeQuery(spec actions.Spec, query actions.Query) []byte {
	b := appendText(encodeCall(spec, query.Call), 8, query.ProviderReference)
	b = appendTime(b, 9, query.FirstSentAt)
	return appendTime(b, 10, query.LastSentAt)
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendTime(b []byte, number protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	stamp := timestamppb.New(t)
	var inner []byte
	inner = protowire.AppendVarint(protowire.AppendTag(inner, 1, protowire.VarintType), uint64(stamp.GetSeconds()))
	inner = protowire.AppendVarint(protowire.AppendTag(inner, 2, protowire.VarintType), uint64(stamp.GetNanos()))
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), inner)
}

// mendText returns a message in which every text is UTF-8: what is not becomes
// U+FFFD. It fails on what is no message at all.
func mendText(data []byte, message protoreflect.MessageDescriptor) ([]byte, error) {
	var out []byte
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		tag, value := data[:n], data[n:n+size]
		data = data[n+size:]
		out = append(out, tag...)
		field := message.Fields().ByNumber(number)
		if kind != protowire.BytesType || field == nil {
			out = append(out, value...)
			continue
		}
		content, n := protowire.ConsumeBytes(value)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		switch field.Kind() {
		case protoreflect.StringKind:
			if !utf8.Valid(content) {
				content = []byte(strings.ToValidUTF8(string(content), "\uFFFD"))
			}
		case protoreflect.MessageKind:
			mended, err := mendText(content, field.Message())
			if err != nil {
				return nil, err
			}
			content = mended
		default: // bytes, and packed numbers
		}
		out = protowire.AppendBytes(out, content)
	}
	return out, nil
}
