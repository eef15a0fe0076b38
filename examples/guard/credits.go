package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/onceward/onceward/guard"
)

const (
	// audience is this service's name: token_audience of the action types that it
	// performs.
	audience = "credits"
	// grantAction is the one action type that may write here.
	grantAction = "credits.grant"
	maxBody     = 64 << 10
)

// credits are what customers have. It is safe for concurrent use.
type credits struct {
	mu      sync.Mutex
	balance map[string]int64
}

// grant is the request: exactly the arguments of the action.
type grant struct {
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
}

// newHandler serves POST /grants for Onceward, and GET /balances/{customer} for
// whoever asks.
func newHandler(keys guard.Keys, issuer string, store guard.Store, log *slog.Logger) (http.Handler, error) {
	verifier, err := guard.NewVerifier(guard.VerifierOptions{Issuer: issuer, Audience: audience, Keys: keys})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(guard.Options{Verifier: verifier, Store: store, Log: log})
	if err != nil {
		return nil, err
	}
	c := &credits{balance: map[string]int64{}}
	mux := http.NewServeMux()
	// Around the whole route: no method but GET, HEAD and OPTIONS passes.
	mux.Handle("/grants", g.Require(grantAction)(http.HandlerFunc(c.grant)))
	mux.HandleFunc("GET /balances/{customer}", c.show)
	return mux, nil
}

// grant performs one operation. The guard calls it once for each, unless it
// answers with 4xx, which says that nothing was done.
func (c *credits) grant(w http.ResponseWriter, r *http.Request) {
	claims, ok := guard.FromContext(r.Context())
	if r.Method != http.MethodPost || !ok {
		http.Error(w, "POST a grant", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	// A token that somebody got hold of is good for its own arguments only.
	if err := claims.CheckArguments(body); err != nil {
		guard.WriteError(w, err)
		return
	}
	var g grant
	if err := json.Unmarshal(body, &g); err != nil || g.Customer == "" || g.Amount <= 0 {
		http.Error(w, "want a customer and an amount above 0", http.StatusUnprocessableEntity)
		return
	}
	c.mu.Lock()
	c.balance[g.Customer] += g.Amount
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"id": claims.OperationID, "amount": g.Amount})
}

// show needs no token: it writes nothing.
func (c *credits) show(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	balance := c.balance[r.PathValue("customer")]
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]int64{"balance": balance})
}
