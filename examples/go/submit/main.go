// Command submit submits a job of a type of one's own, and waits for its result.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tierq/tierq/client"
)

func main() {
	c := client.New(cmp.Or(os.Getenv("TIERQ_URL"), "http://127.0.0.1:8080"), client.WithToken(os.Getenv("TIERQ_KEY")))
	done, err := double(c, 512)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.JobID, done.Status, string(done.Result))
}

// double has a worker double a picture's width.
func double(c *client.Client, width int) (client.Poll, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	id, err := c.Submit(ctx, client.Paid, "RESIZE", map[string]int{"width": width}, client.InQueue("pictures"))
	if err != nil {
		return client.Poll{}, err
	}
	return c.Wait(ctx, id)
}
