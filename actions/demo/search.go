package demo

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// search looks for the objects below path that carry the operation's id in
// their metadata. One page of two is enough to tell none, one and several. When
// the search has nothing but an earlier answer gave an id, the object is read
// by it: such a read does not lag.
func (s *service) search(ctx context.Context, path string, query actions.Query, receiptFields []string) actions.Finding {
	x, ok := s.get(ctx, path+"?limit=2&operation_id="+url.QueryEscape(query.OperationID))
	if !ok || x.Status != 200 {
		return inconclusive(x.Evidence)
	}
	page, err := httpaction.PickJSON(x.Body, "data", "has_more")
	if err != nil {
		return inconclusive("the search's answer has no page: " + err.Error())
	}
	var list struct {
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}
	if json.Unmarshal(page, &list) != nil || list.Data == nil {
		return inconclusive("the search's answer has no list")
	}
	var references []string
	for _, object := range list.Data {
		if operationOf(object) != query.OperationID {
			return inconclusive("the search returned an object of another operation")
		}
		receipt, err := httpaction.ReceiptOf(object, "id")
		if err != nil {
			return inconclusive("the search returned an object without an id")
		}
		references = append(references, receipt.Reference)
	}
	switch {
	case len(list.Data) > 1:
		return actions.Finding{Kind: actions.Several, References: references}
	case list.HasMore:
		return inconclusive("the search's page is incomplete")
	case len(list.Data) == 1:
		return found(list.Data[0], receiptFields)
	case query.ProviderReference != "":
		return s.read(ctx, path, query, receiptFields)
	}
	return actions.Finding{Kind: actions.Absent, Detail: "the search found nothing of this operation"}
}

// read finds an object by the provider's id. The id was given for an effect, so
// that not to find it is a riddle and no proof of absence.
func (s *service) read(ctx context.Context, path string, query actions.Query, receiptFields []string) actions.Finding {
	x, ok := s.get(ctx, path+"/"+url.PathEscape(query.ProviderReference))
	if !ok || x.Status != 200 || operationOf(x.Body) != query.OperationID {
		return inconclusive("neither search nor id found it: " + x.Evidence)
	}
	return found(x.Body, receiptFields)
}
