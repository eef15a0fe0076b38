package contest

import "encoding/json"

// ReceiptJSON is what a provider answers: the same size for every contestant.
type ReceiptJSON struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Status   string `json:"status"`
	Amount   int    `json:"amount"`
	Currency string `json:"currency"`
	Order    string `json:"order"`
}

// Receipt is the provider's answer to the action of a key.
func Receipt(key string) string {
	text, err := json.Marshal(ReceiptJSON{ID: "re_" + key, Object: "refund", Status: "succeeded", Amount: 4900, Currency: "usd", Order: key})
	if err != nil {
		return "" // strings and numbers always encode
	}
	return string(text)
}
