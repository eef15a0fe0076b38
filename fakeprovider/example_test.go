package fakeprovider_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/onceward/onceward/fakeprovider"
)

// A client that loses an answer and sends again refunds twice, although it
// has seen one success only.
func Example() {
	p := fakeprovider.New(fakeprovider.Options{})
	s, err := fakeprovider.Start(p, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	p.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		body := `{"charge_id":"ch_1001","amount":4900,"currency":"usd"}`
		req, err := http.NewRequest(http.MethodPost, s.URL()+"/v1/refunds", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println("refunds:", len(p.EffectsOn(fakeprovider.RefundOf("ch_1001"))))
	// Output:
	// no answer
	// 201 Created
	// refunds: 2
}
