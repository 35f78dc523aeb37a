package web

import (
	"net/http"
	"strconv"
)

// paging holds the addresses of the previous and the next page.
type paging struct{ Before, After string }

// pageOf returns the rows of the requested page; an invalid number means the first page.
func pageOf[T any](r *http.Request, rows []T, size int) ([]T, paging) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	n = min(max(n, 1), max(1, (len(rows)+size-1)/size))
	var p paging
	if n > 1 {
		p.Before = with(r.URL, "page", strconv.Itoa(n-1))
	}
	if n*size < len(rows) {
		p.After = with(r.URL, "page", strconv.Itoa(n+1))
	}
	return rows[(n-1)*size : min(n*size, len(rows))], p
}
