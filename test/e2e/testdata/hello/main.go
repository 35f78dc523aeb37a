// Command hello is the program of the tests' own container images: it answers every request with its argument.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	s := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, os.Args[1])
	})}
	fmt.Println(s.ListenAndServe())
	os.Exit(1)
}
