package delta

import (
	"fmt"
	"slices"
	"strings"
)

// Hunk is a part of a text in which lines differ, like a hunk of a unified diff.
type Hunk struct {
	From  int      `json:"from"`  // first line of the old text, from 1; 0: there is no old text
	To    int      `json:"to"`    // the first line of the new text
	Lines []string `json:"lines"` // each begins with " ", "-" or "+"
}

// around is the number of equal lines that a hunk shows before and after the differing ones.
const around = 3

// mostLines is the maximum number of differing lines that are shown of one text.
const mostLines = 400

// Header returns the hunk's header line in a unified diff.
func (h Hunk) Header() string {
	was, is := h.counts()
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.From, was, h.To, is)
}

// counts returns how many lines of the old and of the new text the hunk covers.
func (h Hunk) counts() (was, is int) {
	for _, l := range h.Lines {
		if l[0] != '+' {
			was++
		}
		if l[0] != '-' {
			is++
		}
	}
	return was, is
}

func (h Hunk) equal(o Hunk) bool {
	return h.From == o.From && h.To == o.To && slices.Equal(h.Lines, o.Lines)
}

// Hunks compares two texts line by line. cut is the number of differing lines that are left out.
func Hunks(from, to string) (hunks []Hunk, cut int) {
	var now *Hunk
	all := lines(split(from), split(to))
	differs := func(i int) bool { return i >= 0 && i < len(all) && all[i][0] != ' ' }
	near := func(i int) bool {
		for j := i - around; j <= i+around; j++ {
			if differs(j) {
				return true
			}
		}
		return false
	}
	shown, was, is := 0, 0, 0
	for i, l := range all {
		before := Hunk{From: was, To: is}
		if l[0] != '+' {
			was++
		}
		if l[0] != '-' {
			is++
		}
		if !near(i) {
			now = nil
			continue
		}
		if l[0] != ' ' {
			if shown == mostLines {
				cut++
				continue
			}
			shown++
		}
		if shown == mostLines && l[0] == ' ' && cut > 0 {
			continue
		}
		if now == nil {
			hunks = append(hunks, before)
			now = &hunks[len(hunks)-1]
		}
		now.Lines = append(now.Lines, l)
	}
	for i := range hunks {
		was, is := hunks[i].counts()
		hunks[i].From, hunks[i].To = hunks[i].From+min(was, 1), hunks[i].To+min(is, 1)
	}
	return hunks, cut
}

// split splits a text into lines. A missing newline at the end counts as a difference of the last line.
func split(text string) []string {
	if text == "" {
		return nil
	}
	whole := strings.HasSuffix(text, "\n")
	out := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !whole {
		out[len(out)-1] += " ⏎ (no newline at the end)"
	}
	return out
}

// most limits the size of the table that lines fills. If two texts would need a larger one, all differing lines are replaced as a whole.
const most = 4_000_000

// lines returns an edit script from one list of lines to the other, by the longest common subsequence. Each line begins with its sign.
func lines(a, b []string) (all []string) {
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	for _, l := range a[:begin] {
		all = append(all, " "+l)
	}
	x, y := a[begin:len(a)-end], b[begin:len(b)-end]
	common := table(x, y)
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case common != nil && i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, " "+x[i])
			i, j = i+1, j+1
		case i < len(x) && (common == nil || j == len(y) || common[i+1][j] >= common[i][j+1]):
			all = append(all, "-"+x[i])
			i++
		default:
			all = append(all, "+"+y[j])
			j++
		}
	}
	for _, l := range a[len(a)-end:] {
		all = append(all, " "+l)
	}
	return all
}

// table holds the length of the longest common subsequence of the remainders after each pair of lines. It returns nil if the table would be too
// large.
func table(x, y []string) [][]int32 {
	if len(x)*len(y) > most {
		return nil
	}
	t := make([][]int32, len(x)+1)
	for i := range t {
		t[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				t[i][j] = t[i+1][j+1] + 1
			} else {
				t[i][j] = max(t[i+1][j], t[i][j+1])
			}
		}
	}
	return t
}
