package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// column is one of a list of T.
type column[T any] struct {
	Text    string
	By      string            // what an address calls the order by it; empty: the list is not sorted by it
	Falls   bool              // the greatest, or the newest, comes first, and with another click the least
	Compare func(a, b *T) int // nil: the store has sorted the list
}

// head is that of a column, as a page has it.
type head struct {
	Text   string
	Href   string // the list sorted by it: the other way round where it is already; empty: it is not sorted by it
	Sorted string // ascending or descending, as aria-sort has it; empty: it is not
}

// orderOf is by what the list at an address is sorted, the other way round with a - before it: usual, where it does not name one of the columns.
func orderOf[T any](u *url.URL, usual string, columns []column[T]) string {
	order := u.Query().Get("order")
	by := strings.TrimPrefix(order, "-")
	if by == "" || !slices.ContainsFunc(columns, func(c column[T]) bool { return c.By == by }) {
		return usual
	}
	return order
}

// headsOf are those of a list that is sorted so. Their links keep what else the address says, such as filters.
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

// arrange sorts a list as an order says. Those that are the same stay in the order that they have.
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

// compared is how two are by a value of theirs.
func compared[T any, V cmp.Ordered](value func(*T) V) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(value(a), value(b)) }
}

// byNumbers compares texts with numbers in them, such as v1.9.0 and v1.10.0.
func byNumbers(a, b string) int {
	split := func(s string) (all []int) {
		for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(part) // what is too long for a number is all the same
			all = append(all, n)
		}
		return all
	}
	return cmp.Or(slices.Compare(split(a), split(b)), strings.Compare(a, b))
}
