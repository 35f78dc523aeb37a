// Command echo answers HTTP on :8080 with the name of its host, and looks names up: what a smoke test of a cluster asks.
// `echo get URL` is the other side: it asks until it is answered.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == "get" {
		if err := get(ctx, os.Args[2], os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	host, err := os.Hostname()
	if err != nil {
		log.Fatalf("find the host's name: %v", err)
	}
	server := &http.Server{Addr: ":8080", Handler: handler(host, net.DefaultResolver), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(bound); err != nil {
			log.Printf("stop: %v", err)
		}
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("serve: %v", err)
	}
}

type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// handler answers / with the host's name, /dns?name=NAME with its addresses one a line, /healthz with ok.
func handler(host string, r resolver) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, host) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /dns", func(w http.ResponseWriter, q *http.Request) {
		name := q.URL.Query().Get("name")
		if name == "" {
			http.Error(w, "name the host to look up: /dns?name=HOST", http.StatusBadRequest)
			return
		}
		bound, cancel := context.WithTimeout(q.Context(), 5*time.Second)
		defer cancel()
		addresses, err := r.LookupHost(bound, name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		sort.Strings(addresses)
		fmt.Fprintln(w, strings.Join(addresses, "\n"))
	})
	return mux
}
