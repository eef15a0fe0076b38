package edge

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// A connection that begins while the toxic is added has no state yet: it is truncated
// like the others, where Toxiproxy's own toxic ended the process.
func TestTruncationOfAConnectionThatBegins(t *testing.T) {
	t.Parallel()
	in, out := make(chan *stream.StreamChunk, 1), make(chan *stream.StreamChunk, 2)
	stub := toxics.NewToxicStub(in, out)
	in <- &stream.StreamChunk{Data: []byte("0123456789")}
	(&truncation{Bytes: 4}).Pipe(stub)
	if chunk := <-out; string(chunk.Data) != "0123" {
		t.Errorf("%q came through, want 0123", chunk.Data)
	}
	if chunk, open := <-out; open {
		t.Errorf("%q came after the end", chunk.Data)
	}
}
