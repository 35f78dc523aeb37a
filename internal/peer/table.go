package peer

import "container/list"

// table holds at most a number of values by key and forgets the one that was used longest ago. Each call takes constant time.
type table[V any] struct {
	most  int
	order *list.List // of entry[V], the latest first
	byKey map[string]*list.Element
}

type entry[V any] struct {
	key   string
	value V
}

func newTable[V any](most int) *table[V] {
	return &table[V]{most: most, order: list.New(), byKey: map[string]*list.Element{}}
}

// get returns the value of a key, and makes it the latest.
func (t *table[V]) get(key string) (v V, ok bool) {
	e := t.byKey[key]
	if e == nil {
		return v, false
	}
	t.order.MoveToFront(e)
	return e.Value.(*entry[V]).value, true
}

// put sets a key's value. forgotten is the value that it made room by, if any.
func (t *table[V]) put(key string, v V) (forgotten *V) {
	if e := t.byKey[key]; e != nil {
		e.Value.(*entry[V]).value = v
		t.order.MoveToFront(e)
		return nil
	}
	if t.order.Len() >= t.most {
		last := t.order.Back()
		old := t.order.Remove(last).(*entry[V])
		delete(t.byKey, old.key)
		forgotten = &old.value
	}
	t.byKey[key] = t.order.PushFront(&entry[V]{key, v})
	return forgotten
}

func (t *table[V]) remove(key string) {
	if e := t.byKey[key]; e != nil {
		t.order.Remove(e)
		delete(t.byKey, key)
	}
}

func (t *table[V]) len() int { return t.order.Len() }
