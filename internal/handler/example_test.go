package handler_test

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/handler"
)

type resize struct {
	Image string `json:"image"`
	Width int    `json:"width"`
}

// Validate is called at submit.
func (r *resize) Validate() error {
	if r.Width < 1 || r.Width > 4000 {
		return &handler.PayloadError{Field: "payload.width", Reason: "is not in 1..4000"}
	}
	return nil
}

type resized struct {
	Note string `json:"note"`
}

func ExampleRegister() {
	registry := handler.NewRegistry()
	handler.Register(registry, "RESIZE", func(ctx context.Context, in resize) (resized, error) {
		run, _ := handler.Running(ctx)
		return resized{Note: fmt.Sprintf("%s is %d wide, attempt %d", in.Image, in.Width, run.Attempt)}, nil
	})

	fmt.Println(registry.Check("RESIZE", []byte(`{"image":"a.png","width":0}`)))
	ctx := handler.WithRun(context.Background(), handler.Run{Attempt: 1})
	result, err := registry.Run(ctx, "RESIZE", []byte(`{"image":"a.png","width":40}`))
	fmt.Println(string(result), err)
	// Output:
	// payload.width: is not in 1..4000
	// {"note":"a.png is 40 wide, attempt 1"} <nil>
}
