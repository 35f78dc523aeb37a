package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// column is a column of a list of T.
type column[T any] struct {
	Text    string
	By      string            // name of the order in addresses; empty: the list can't be sorted by this column
	Falls   bool              // the greatest or newest comes first, and the least after another click
	Compare func(a, b *T) int // nil: the store has sorted the list
}

// head is the head of a column on a page.
type head struct {
	Text   string
	Href   string // address of the list sorted by this column, in reverse if it is already; empty: not sortable
	Sorted string // value of aria-sort, ascending or descending; empty: not sorted by this column
}

// orderOf returns the order in an address: a column's By, with "-" before it if reversed. It returns usual if the address names no known column.
func orderOf[T any](u *url.URL, usual string, columns []column[T]) string {
	order := u.Query().Get("order")
	by := strings.TrimPrefix(order, "-")
	if by == "" || !slices.ContainsFunc(columns, func(c column[T]) bool { return c.By == by }) {
		return usual
	}
	return order
}

// headsOf returns the heads of a list that is sorted by order. Their links keep the other fields of the address, such as filters.
func headsOf[T any](u *url.URL, order string, columns []column[T]) (all []head) {
	for _, c := range columns {
		h := head{Text: c.Text}
		if c.By != "" {
			h.Href = with(u, "order", c.By)
			switch order {
			case c.By:
				h.Href, h.Sorted = with(u, "order", "-"+c.By), direction(c.Falls)
			case "-" + c.By:
				h.Sorted = direction(!c.Falls)
			}
		}
		all = append(all, h)
	}
	return all
}

func direction(falls bool) string {
	if falls {
		return "descending"
	}
	return "ascending"
}

// arrange sorts a list by order, stably.
func arrange[T any](rows []T, order string, columns []column[T]) {
	by, back := strings.CutPrefix(order, "-")
	i := slices.IndexFunc(columns, func(c column[T]) bool { return c.By == by && c.Compare != nil })
	if i < 0 {
		return
	}
	c := columns[i]
	slices.SortStableFunc(rows, func(a, b T) int {
		if c.Falls != back {
			return c.Compare(&b, &a)
		}
		return c.Compare(&a, &b)
	})
}

// compared returns a comparison by a value.
func compared[T any, V cmp.Ordered](value func(*T) V) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(value(a), value(b)) }
}

// byNumbers compares texts by the numbers in them, as in v1.9.0 and v1.10.0.
func byNumbers(a, b string) int {
	split := func(s string) (all []int) {
		for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(part) // numbers too large for an int count as equal
			all = append(all, n)
		}
		return all
	}
	return cmp.Or(slices.Compare(split(a), split(b)), strings.Compare(a, b))
}
