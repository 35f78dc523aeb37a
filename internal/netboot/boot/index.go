package boot

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// index finds the most specific of many groups that match labels. Groups that select by the same label names share a shape, which has one map
// from values to groups: a lookup costs one access per shape, and even many machines have few shapes. A lookup tries only shapes whose anchor is
// among the labels.
type index struct {
	shapes   map[string]*shape   // by signature
	anchored map[string][]*shape // by the label that is their anchor
	free     []*shape            // shapes that select by no label, or only by empty ones
}

// shape is the label names of selectors: labels with a value, and labels that must be empty or missing.
type shape struct {
	anchor  string
	has     []string
	lacks   []string
	members map[string][]*member // by the values of has; the best one first
}

// member is a group in the index.
type member struct {
	group Group
	place string         // its source: decides between groups with equal selectors
	order string         // its selector, in the form by which groups are sorted
	vars  map[string]any // its metadata and selector, as templates see them
}

func newIndex() *index { return &index{shapes: map[string]*shape{}, anchored: map[string][]*shape{}} }

func newMember(place string, g Group) *member {
	m := &member{group: g, place: place, vars: maps.Clone(g.Metadata)}
	if m.vars == nil {
		m.vars = map[string]any{}
	}
	pairs := make([]string, 0, len(g.Selector))
	for _, k := range slices.Sorted(maps.Keys(g.Selector)) {
		pairs = append(pairs, k+"="+g.Selector[k])
		m.vars[strings.ToLower(k)] = g.Selector[k]
	}
	slices.Sort(pairs)
	m.order = strings.Join(pairs, ",")
	return m
}

// before reports whether m has precedence over o if both match: the group with more labels, then the one whose selector sorts later, as in
// matchbox.
func (m *member) before(o *member) bool {
	if len(m.group.Selector) != len(o.group.Selector) {
		return len(m.group.Selector) > len(o.group.Selector)
	}
	if m.order != o.order {
		return m.order > o.order
	}
	return m.place < o.place
}

// split returns the labels that must have a value and those that must be empty.
func (m *member) split() (has, lacks []string) {
	for _, k := range slices.Sorted(maps.Keys(m.group.Selector)) {
		if m.group.Selector[k] == "" {
			lacks = append(lacks, k)
		} else {
			has = append(has, k)
		}
	}
	return has, lacks
}

// add adds a group to the index.
func (x *index) add(m *member) {
	has, lacks := m.split()
	signature := signatureOf(has, lacks)
	s := x.shapes[signature]
	if s == nil {
		s = &shape{has: has, lacks: lacks, members: map[string][]*member{}}
		x.shapes[signature] = s
		if len(has) == 0 {
			x.free = append(x.free, s)
		} else {
			s.anchor = slices.MinFunc(has, func(a, b string) int { return len(x.anchored[a]) - len(x.anchored[b]) })
			x.anchored[s.anchor] = append(x.anchored[s.anchor], s)
		}
	}
	key, _ := s.key(m.group.Selector, nil)
	all := s.members[string(key)]
	at, _ := slices.BinarySearchFunc(all, m, func(a, b *member) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	s.members[string(key)] = slices.Insert(all, at, m)
}

// remove removes a group from the index, and its shape with the last group.
func (x *index) remove(m *member) {
	has, lacks := m.split()
	signature := signatureOf(has, lacks)
	s := x.shapes[signature]
	key, _ := s.key(m.group.Selector, nil)
	left := slices.DeleteFunc(s.members[string(key)], func(o *member) bool { return o == m })
	if len(left) > 0 {
		s.members[string(key)] = left
		return
	}
	delete(s.members, string(key))
	if len(s.members) > 0 {
		return
	}
	delete(x.shapes, signature)
	same := func(o *shape) bool { return o == s }
	if len(s.has) == 0 {
		x.free = slices.DeleteFunc(x.free, same)
	} else if x.anchored[s.anchor] = slices.DeleteFunc(x.anchored[s.anchor], same); len(x.anchored[s.anchor]) == 0 {
		delete(x.anchored, s.anchor)
	}
}

// find returns the group for labels, or nil.
func (x *index) find(labels map[string]string) *member {
	var best *member
	var room [256]byte
	try := func(shapes []*shape) {
		for _, s := range shapes {
			key, ok := s.key(labels, room[:0])
			if !ok {
				continue
			}
			if all := s.members[string(key)]; len(all) > 0 && (best == nil || all[0].before(best)) {
				best = all[0]
			}
		}
	}
	try(x.free)
	for label := range labels {
		try(x.anchored[label])
	}
	return best
}

// key appends to room the key of the groups for these labels. It reports whether the labels match the shape.
func (s *shape) key(labels map[string]string, room []byte) ([]byte, bool) {
	for _, k := range s.lacks {
		if labels[k] != "" {
			return nil, false
		}
	}
	for _, k := range s.has {
		v := labels[k]
		if v == "" {
			return nil, false
		}
		room = strconv.AppendInt(room, int64(len(v)), 10)
		room = append(append(room, ':'), v...)
	}
	return room, true
}

func signatureOf(has, lacks []string) string {
	var b strings.Builder
	for _, list := range [][]string{has, lacks} {
		b.WriteString(strconv.Itoa(len(list)))
		for _, k := range list {
			b.WriteString(strconv.Quote(k))
		}
	}
	return b.String()
}
