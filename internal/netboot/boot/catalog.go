package boot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Catalog holds groups, profiles and templates in memory, compiled and indexed. It can be changed while it serves requests.
type Catalog struct {
	mu       sync.RWMutex
	index    *index
	members  map[string]*member // by place
	profiles map[string]*profile
	texts    map[kind]map[string]*text
	config   Config        // as of the last Replace
	number   int           // number of calls of Replace
	changed  chan struct{} // closed by the next Replace
}

// Problem is a part of a Config that machines can't get, or not as its author intended.
type Problem struct {
	File string // as groups/a.json
	Err  error
}

// Error returns the file and the cause.
func (p Problem) Error() string { return fmt.Sprintf("%s: %v", p.File, p.Err) }

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog {
	return &Catalog{index: newIndex(), members: map[string]*member{}, profiles: map[string]*profile{}, texts: map[kind]map[string]*text{}, changed: make(chan struct{})}
}

// Config returns the Config of the last Replace, without groups that Put added since, and its number. The caller must not change it. The channel
// is closed by the next Replace.
func (c *Catalog) Config() (Config, int, <-chan struct{}) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.config, c.number, c.changed
}

// Replace atomically replaces the content of the catalog by cfg and returns the problems in cfg. Machines get no answer from parts with a
// problem; the rest is in use.
func (c *Catalog) Replace(cfg Config) []Problem {
	n := NewCatalog()
	var problems []Problem
	wrong := func(file string, err error) { problems = append(problems, Problem{file, err}) }
	for k, files := range cfg.texts() {
		n.texts[k] = make(map[string]*text, len(files))
		for name, content := range files {
			t, err := compile(k, name, content)
			if err != nil {
				wrong(string(k)+"/"+name, err)
			}
			n.texts[k][name] = t
		}
	}
	for name, p := range cfg.Profiles {
		n.profiles[name] = compileProfile(p)
		for _, err := range n.missing(p) {
			wrong("profiles/"+name+".json", err)
		}
	}
	for name, g := range cfg.Groups {
		if err := n.Put(name, g); err != nil {
			wrong("groups/"+name+".json", err)
		} else if n.profiles[clean(g.Profile)] == nil {
			wrong("groups/"+name+".json", fmt.Errorf("there is no profile %q", g.Profile))
		}
	}
	problems = append(problems, n.twins()...)
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Error(), b.Error()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.members, c.profiles, c.texts, c.config = n.index, n.members, n.profiles, n.texts, cfg
	c.number++
	close(c.changed)
	c.changed = make(chan struct{})
	return problems
}

// Put adds a group under a name that the caller chooses, and replaces a group of that name.
func (c *Catalog) Put(name string, g Group) error {
	g, err := g.normal()
	if err != nil {
		return err
	}
	m := newMember(name, g)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.members[name]; old != nil {
		c.index.remove(old)
	}
	c.members[name] = m
	c.index.add(m)
	return nil
}

// Remove removes the group with a name, if it exists.
func (c *Catalog) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.members[name]; old != nil {
		c.index.remove(old)
		delete(c.members, name)
	}
}

// Len returns the number of groups.
func (c *Catalog) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.members)
}

// Select returns the most specific group for a machine with these labels, or false if there is none.
func (c *Catalog) Select(labels map[string]string) (Group, bool) {
	if m := c.find(labels); m != nil {
		return m.group, true
	}
	return Group{}, false
}

func (c *Catalog) find(labels map[string]string) *member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.index.find(labels)
}

func (c *Catalog) profile(name string) *profile {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.profiles[clean(name)]
}

func (c *Catalog) text(k kind, name string) *text {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.texts[k][clean(name)]
}

// missing returns an error for each template that a profile names and the catalog lacks.
func (c *Catalog) missing(p Profile) []error {
	var all []error
	for k, name := range map[kind]string{ignitionKind: p.IgnitionID, cloudKind: p.CloudID, genericKind: p.GenericID} {
		if _, there := c.texts[k][clean(name)]; name != "" && !there {
			all = append(all, fmt.Errorf("there is no file %s/%s", k, name))
		}
	}
	return all
}

// twins finds groups with equal selectors: only one of them is ever used.
func (c *Catalog) twins() []Problem {
	var all []Problem
	for _, s := range c.index.shapes {
		for _, members := range s.members {
			for _, m := range members[1:] {
				all = append(all, Problem{"groups/" + m.place + ".json", fmt.Errorf("groups/%s.json asks for the same labels, and is taken", members[0].place)})
			}
		}
	}
	return all
}

// Names returns the names of the groups, sorted.
func (c *Catalog) Names() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.members))
}
