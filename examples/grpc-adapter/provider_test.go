package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

const token = "loyalty-token"

// loyaltyProvider is what the fake provider plays: grants, idempotency keys that
// hold for two days, and a search by operation id.
func loyaltyProvider() fakeprovider.Options {
	return fakeprovider.Options{
		Token: token,
		Resources: []fakeprovider.Resource{{
			Name: "grant", Path: "/v1/grants",
			Read: readWrite,
			Keys: fakeprovider.Keys{
				From:     func(c *fakeprovider.Call) string { return c.Header.Get("Idempotency-Key") },
				Scope:    "grant",
				Window:   48 * time.Hour,
				Compare:  func(c *fakeprovider.Call) string { return string(c.Body) },
				Mismatch: func(*fakeprovider.Call) fakeprovider.Answer { return refusal(http.StatusConflict, "key_reused") },
				InUse:    func(*fakeprovider.Call) fakeprovider.Answer { return refusal(http.StatusConflict, "key_in_use") },
			},
			NewID: func(n int) string { return fmt.Sprintf("gr_%d", n) },
			Answer: func(o fakeprovider.Object) fakeprovider.Answer {
				a := fakeprovider.Answer{Status: http.StatusCreated, Body: toJSON(view(o))}
				if o.Pending {
					a.Status = http.StatusAccepted
				}
				return a
			},
			Lookups: []fakeprovider.Lookup{{Path: "/v1/grants", Answer: search}},
		}},
	}
}

func readWrite(c *fakeprovider.Call) (fakeprovider.Draft, *fakeprovider.Answer) {
	var fields map[string]any
	if err := json.Unmarshal(c.Body, &fields); err != nil {
		a := refusal(http.StatusBadRequest, "malformed")
		return fakeprovider.Draft{}, &a
	}
	text := func(name string) string { s, _ := fields[name].(string); return s }
	d := fakeprovider.Draft{OperationID: text("operation_id"), NaturalKey: text("order_id"), Data: fields}
	if text("member_id") == "mb_nobody" {
		a := refusal(http.StatusUnprocessableEntity, "unknown_member")
		return d, &a
	}
	return d, nil
}

func view(o fakeprovider.Object) map[string]any {
	v := map[string]any{"id": o.ID, "status": "granted"}
	if o.Pending {
		v["status"] = "pending"
	}
	if fields, ok := o.Draft.Data.(map[string]any); ok {
		for name, value := range fields {
			v[name] = value
		}
	}
	return v
}

func search(c *fakeprovider.Call, visible []fakeprovider.Object) (fakeprovider.Answer, bool) {
	id := c.Query.Get("operation_id")
	found := []map[string]any{}
	for _, o := range visible {
		if o.Draft.OperationID == id {
			found = append(found, view(o))
		}
	}
	return fakeprovider.Answer{Status: http.StatusOK, Body: toJSON(map[string]any{"operation_id": id, "grants": found})}, len(found) > 0
}

func refusal(status int, code string) fakeprovider.Answer {
	return fakeprovider.Answer{Status: status, Body: toJSON(map[string]any{"error": map[string]any{"code": code, "message": "Refused."}})}
}

func toJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of what came as JSON
	}
	return data
}
