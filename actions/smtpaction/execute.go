package smtpaction

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
)

// Execute makes one attempt: one connection, at most one mail.
func (a *Action) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	l, err := a.letter(call)
	if err != nil {
		return rejected("not_renderable", "The arguments make no mail: "+oneLine(err.Error())+".", oneLine(err.Error()), true)
	}
	ctx, cancel := a.within(ctx)
	defer cancel()
	reserve := timeLeft(ctx) / 4
	hello := a.o.Hello
	if hello == "" {
		hello = domainOf(l.from)
	}
	s, err := a.connect(ctx, hello)
	if err != nil {
		o := notApplied("not_connected", "The mail server could not be used.", err.Error()+"; no mail was offered")
		var answered *refusal
		o.Unreached = !errors.As(err, &answered)
		return o
	}
	defer s.close()
	if refused := s.offer(l); refused != nil {
		s.quit()
		return *refused
	}
	return s.send(l, reserve)
}

// offer asks the server to take a mail for all its recipients, and goes as far
// as its leave to send it. It returns nil when that was given.
func (s *session) offer(l *letter) *actions.Outcome {
	if limit := s.limit(); limit > 0 && len(l.data) > limit {
		o := rejected("too_large", fmt.Sprintf("The mail is longer than the %d bytes that the mail server takes.", limit),
			fmt.Sprintf("%d bytes, SIZE %d; no mail was offered", len(l.data), limit), true)
		return &o
	}
	if _, err := s.say("MAIL FROM:<"+l.from+">", 250); err != nil {
		return declined("MAIL", err, "sender_refused", "The mail server refused the sender.", false)
	}
	for i, to := range l.to {
		if _, err := s.say("RCPT TO:<"+to+">", 250); err != nil {
			return declined(fmt.Sprintf("RCPT %d of %d", i+1, len(l.to)), err, "recipient_refused",
				fmt.Sprintf("The mail server refused recipient %d of %d; the mail was sent to nobody.", i+1, len(l.to)), true)
		}
	}
	if _, err := s.say("DATA", 354); err != nil {
		return declined("DATA", err, "mail_refused", "The mail server refused the mail.", true)
	}
	return nil
}

// declined is for a server that does not give leave to send the mail. Only an
// explicit, permanent refusal is not tried again.
func declined(step string, err error, code, message string, correctable bool) *actions.Outcome {
	o := notSent(step, err)
	var r *refusal
	if errors.As(err, &r) && r.reply.class() == 5 && !wantsAuth(r.reply.code) {
		o = rejected(code, message, o.Failure.Evidence, correctable)
	}
	return &o
}

func notSent(step string, err error) actions.Outcome {
	return notApplied("not_accepted", "The mail server did not take the mail.", (&stepError{step, err}).Error()+"; the mail was not sent")
}

// wantsAuth reports refusals of us rather than of the mail (RFC 4954).
func wantsAuth(code int) bool { return code == 530 || code == 534 || code == 535 || code == 538 }

// send transmits the mail and reads what became of it. Until the line with the
// dot is written the server has no mail; once it is, only the reply counts.
func (s *session) send(l *letter, reserve time.Duration) actions.Outcome {
	deadline, _ := s.ctx.Deadline()
	if err := s.conn.SetDeadline(deadline); err != nil {
		return notSent("mail", s.because(err))
	}
	if _, err := s.conn.Write(stuff(l.data)); err != nil {
		return notSent("mail", s.because(err))
	}
	if s.reader.Buffered() > 0 {
		return notSent("mail", errOutOfStep)
	}
	if left := timeLeft(s.ctx); left < reserve {
		// Rather none than one whose fate is not known.
		return notApplied("too_late", "There was no time left for the mail server to answer.",
			fmt.Sprintf("%s left for the reply, want %s; the final dot was not sent", left.Round(time.Millisecond), reserve.Round(time.Millisecond)))
	}
	_, err := s.conn.Write([]byte(".\r\n"))
	var got reply
	if err == nil {
		got, err = readReply(s.reader)
	}
	if err != nil {
		return s.unknown(l, describe(s.because(err)))
	}
	s.quit()
	seen := "final dot: " + got.String()
	switch got.class() {
	case 2:
		return accepted(l, got)
	case 4:
		return notApplied("not_accepted", "The mail server did not take the mail.", seen)
	case 5:
		return rejected("mail_refused", "The mail server refused the mail.", seen, true)
	}
	return s.unknown(l, got.String())
}

func (s *session) unknown(l *letter, seen string) actions.Outcome {
	return actions.Outcome{Failure: actions.Failure{
		Code: "no_reply", Message: "Whether the mail server has taken the mail is not known.",
		Evidence: "final dot: " + seen + "; look for Message-ID " + l.messageID}}
}

// receipt is the JSON of an accepted mail.
type receipt struct {
	MessageID string `json:"message_id"`
	Reply     string `json:"reply"`
}

// accepted makes the receipt. Its reference is what the server says of this
// acceptance, where there is a number in it (its queue's id), so that a second
// mail under the same Message-ID is seen as one; else the Message-ID.
func accepted(l *letter, got reply) actions.Outcome {
	reference := l.messageID
	if text := got.text(); strings.ContainsAny(text, "0123456789") {
		reference = text
	}
	text, err := json.Marshal(receipt{MessageID: l.messageID, Reply: strings.TrimSpace(got.String() + " " + got.text())})
	if err != nil {
		return actions.Outcome{Kind: actions.AppliedNoReceipt, Receipt: actions.Receipt{Reference: reference}}
	}
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: reference, JSON: text}}
}

// stuff doubles the dot at the beginning of a line, which alone would end the
// mail (RFC 5321, 4.5.2).
func stuff(data []byte) []byte {
	stuffed := bytes.ReplaceAll(data, []byte("\r\n."), []byte("\r\n.."))
	if bytes.HasPrefix(stuffed, []byte(".")) {
		stuffed = append([]byte("."), stuffed...)
	}
	return stuffed
}

// within gives ctx the attempt's timeout where it has no end of its own.
func (a *Action) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.o.Spec.Timeout)
}

// timeLeft is the rest of an attempt's time, by the clock that leaves less: the
// monotonic one stands still while a machine sleeps.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return min(time.Until(deadline), deadline.Round(0).Sub(time.Now().Round(0)))
}

func notApplied(code, message, evidence string) actions.Outcome {
	return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{Code: code, Message: message, Evidence: evidence}}
}

func rejected(code, message, evidence string, correctable bool) actions.Outcome {
	return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
		Code: code, Message: message, Evidence: evidence, Correctable: correctable}}
}
