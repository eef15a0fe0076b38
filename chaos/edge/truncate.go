package edge

import (
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// truncateType is how Toxiproxy calls a truncation.
const truncateType = "onceward_truncate"

// truncation ends a connection after some bytes. Toxiproxy's own (limit_data, 2.5.0)
// ends the whole process instead when a connection begins at the moment that the
// toxic is added: it counts on a state that is not there yet.
type truncation struct {
	Bytes int64 `json:"bytes"`
}

// passed is how many bytes of a connection went through, over interruptions.
type passed struct{ bytes int64 }

// NewState implements toxics.StatefulToxic.
func (*truncation) NewState() any { return new(passed) }

// Pipe implements toxics.Toxic.
func (t *truncation) Pipe(stub *toxics.ToxicStub) {
	state, ok := stub.State.(*passed)
	if !ok {
		state = new(passed)
		stub.State = state
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			data := chunk.Data[:min(int64(len(chunk.Data)), max(t.Bytes-state.bytes, 0))]
			if len(data) > 0 {
				stub.Output <- &stream.StreamChunk{Data: data, Timestamp: chunk.Timestamp}
				state.bytes += int64(len(data))
			}
			if state.bytes >= t.Bytes {
				stub.Close()
				return
			}
		}
	}
}
