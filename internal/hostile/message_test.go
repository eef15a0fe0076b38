package hostile

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// source is the entropy of one message: bytes that the fuzzer changes, so that
// what it learns about one of them is about one decision. Past its end it is
// zeros.
type source struct{ rest []byte }

func (s *source) next() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *source) pick(n int) int { return int(s.next()) % n }

// texts are worth trying wherever a text is wanted: what is there, what nearly is,
// and what the parts behind have trouble with. ids are of operations and reviews.
func texts(ids []string) []string {
	return append([]string{
		"", "payments.refund.create", "email.invoice.send", "crm.contact.create", "notes.insert", "fakepay",
		`{"charge_id":"ch_1","amount":5,"currency":"usd"}`, `{"charge_id":"ch_1","amount":1e400,"currency":"usd"}`,
		`{"to":"li@example.test","invoice_id":"inv_1","revision":1}`, `{"email":"li@example.test","name":"Li"}`,
		`{"subject":"s","body":"b"}`, "{", "[]", "null", `{"a":1,"a":2}`, `{"a":"\ud800"}`, strings.Repeat(`{"a":`, 300),
		"run_1", "refund", "acme", "globex", "key_1", "01890000-0000-7000-8000-000000000000",
		"01890000-0000-7000-8000-00000000000A", "MDE4OTAwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAwL3g", "%%%",
		"\x00", "a\x00b", "\n", "é", "e\u0301", "\u202e", "' OR 1=1 --", "${tenant}", "../../etc/passwd", "*",
		strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("n", 2001), strings.Repeat("ab ", 20000),
	}, ids...)
}

// numbers are worth trying wherever a number is wanted.
func numbers() []int64 {
	return []int64{
		0, 1, -1, 2, 5, 50, 200, 201, 1000, 60, 61, 1 << 53, 1<<53 + 1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
		253402300799, 253402300800, -62135596801,
	}
}

// fill sets fields of a message as the source says: one of three is left as it is,
// or, with sparse, nearly all are.
func fill(m protoreflect.Message, s *source, words []string, sparse bool, depth int) {
	fields := m.Descriptor().Fields()
	if depth > 6 {
		return
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		if sparse && s.pick(12) != 11 || !sparse && s.pick(3) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			values := m.Mutable(f).Map()
			for range s.pick(4) {
				key := scalar(f.MapKey(), s, words).MapKey()
				v := values.NewValue()
				if f.MapValue().Message() != nil {
					fill(v.Message(), s, words, sparse, depth+1)
				} else {
					v = scalar(f.MapValue(), s, words)
				}
				values.Set(key, v)
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range s.pick(4) {
				if f.Message() != nil {
					fill(list.AppendMutable().Message(), s, words, sparse, depth+1)
				} else {
					list.Append(scalar(f, s, words))
				}
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), s, words, sparse, depth+1)
		default:
			m.Set(f, scalar(f, s, words))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor, s *source, words []string) protoreflect.Value {
	n := numbers()[s.pick(len(numbers()))]
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(n)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(words[s.pick(len(words))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(words[s.pick(len(words))]))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{float64(n), math.NaN(), math.Inf(1), 0.1, 1e300}[s.pick(5)])
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	default:
		return protoreflect.ValueOfInt64(n)
	}
}

// begin makes input a request, or a preview of one, where it can be.
func begin(input protoreflect.Message, good *oncewardv1.RequestActionRequest) {
	var from proto.Message = good
	switch input.Descriptor().Name() {
	case "PreviewActionRequest":
		from = &oncewardv1.PreviewActionRequest{Request: good}
	case "RequestActionRequest":
	default:
		return
	}
	wire, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(wire, input.Interface())
	}
	if err != nil {
		panic(err) // the test's own message
	}
}

// encode makes the bytes of a request: the data itself, a message of the method's
// type that the data decides, or that with the data as an unknown field or with a
// part cut off. From 4 on it begins with a request that would be served.
func encode(form byte, input protoreflect.Message, data []byte, words []string) []byte {
	if form%4 == 0 {
		return data
	}
	s := &source{data}
	if form &= 7; form >= 4 {
		good := []*oncewardv1.RequestActionRequest{
			apptest.Refund("ch_1", 5, "run_1"), apptest.Invoice("inv_1"), apptest.Contact("li@example.test"), apptest.Note("s", "run_1"),
		}[s.pick(4)]
		good = apptest.Waiting(good, 20*time.Millisecond) // some stay in doubt, and nobody finds out
		good.IdempotencyKey = fmt.Sprintf("key_%d", s.next())
		begin(input, good)
	}
	fill(input, s, words, form >= 4, 0)
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(input.Interface())
	if err != nil {
		return data // a text that is no UTF-8
	}
	switch form % 4 {
	case 1:
		return wire
	case 2:
		return append(protowire.AppendBytes(protowire.AppendTag(wire, protowire.MaxValidNumber, protowire.BytesType), data), wire...)
	default:
		return wire[:len(wire)/2]
	}
}
