package peer

import "container/list"

// table maps keys to values, and drops the least recently used entry when it is full. Each call takes constant time.
type table[V any] struct {
	most  int
	order *list.List // of *entry[V], most recently used first
	byKey map[string]*list.Element
}

type entry[V any] struct {
	key   string
	value V
}

func newTable[V any](most int) *table[V] {
	return &table[V]{most: most, order: list.New(), byKey: map[string]*list.Element{}}
}

// get returns the value of a key and marks the key as just used.
func (t *table[V]) get(key string) (v V, ok bool) {
	e := t.byKey[key]
	if e == nil {
		return v, false
	}
	t.order.MoveToFront(e)
	return e.Value.(*entry[V]).value, true
}

// put sets the value of a key.
func (t *table[V]) put(key string, v V) {
	if e := t.byKey[key]; e != nil {
		e.Value.(*entry[V]).value = v
		t.order.MoveToFront(e)
		return
	}
	if t.order.Len() >= t.most {
		old := t.order.Remove(t.order.Back()).(*entry[V])
		delete(t.byKey, old.key)
	}
	t.byKey[key] = t.order.PushFront(&entry[V]{key, v})
}

func (t *table[V]) len() int { return t.order.Len() }
