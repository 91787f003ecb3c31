// Command echo is the program that the kit's tests build and run.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("environment:", strings.Join(os.Environ(), " "), flavour)
	fmt.Fprintln(os.Stderr, "ready", os.Args[1:])
	<-term
	fmt.Println("goodbye")
	os.Exit(3)
}
