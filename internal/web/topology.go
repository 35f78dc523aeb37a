package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/report"
)

// topology is a drawing in rows: a cluster, or the steps of a run.
type topology struct {
	Boxes         []box
	Wires         [][4]int
	Labels        []label
	Width, Height int
}

// label is a text outside of boxes.
type label struct {
	X, Y int
	Text string
}

// box is a machine, the endpoint, or a step.
type box struct {
	X, Y               int
	Name, Under, Class string
	Hover              string
	Href               string // link; empty: none
	Small              bool   // without text, for many machines
}

// Width returns the box's width, for the template.
func (b box) Width() int {
	if b.Small {
		return smallBox
	}
	return boxWidth
}

// Height returns the box's height, for the template.
func (b box) Height() int {
	if b.Small {
		return smallBox
	}
	return boxHeight
}

// Sizes of the drawing, in SVG units.
const (
	boxWidth, boxHeight = 196, 44
	boxGap, rowGap      = 16, 40
	smallBox, smallGap  = 18, 4
	perRow              = 4
	mostSmall           = 200
	crowd               = 12 // number of machines of one kind from which they are drawn small
)

// draw arranges a cluster's machines by the way of requests: from the endpoint through the gateways to the API servers. Workers use the endpoint, too.
func draw(s *report.Status) *topology {
	t := &topology{}
	api := "bad"
	if s.API == "ready" {
		api = "ok"
	}
	gateways, servers, pools := byRole(s)
	y := t.row(8, "", []box{{Name: "endpoint", Under: s.Endpoint, Class: api, Hover: "API: " + s.API}})
	endpoint, above := t.Boxes[0], t.Boxes[:1]
	for _, group := range [][]box{gateways, servers} {
		if len(group) == 0 {
			continue
		}
		from := len(t.Boxes)
		y = t.row(y, "", group)
		if len(group) < crowd {
			for _, a := range above {
				for _, b := range t.Boxes[from:] {
					t.wire(a, b)
				}
			}
			above = t.Boxes[from:]
		}
	}
	if len(pools) == 0 {
		return t
	}
	top := y - rowGap/2
	for _, p := range pools {
		y = t.row(y+14, p.name, p.boxes)
	}
	t.Width = max(t.Width, endpoint.X+boxWidth+120)
	x := t.Width - 12 // one line for all workers, beside the control plane
	t.Wires = append(t.Wires, [4]int{endpoint.X + boxWidth, endpoint.Y + boxHeight/2, x, endpoint.Y + boxHeight/2}, [4]int{x, endpoint.Y + boxHeight/2, x, top}, [4]int{8, top, x, top})
	t.Labels = append(t.Labels, label{x - 110, endpoint.Y + boxHeight/2 - 6, "workers use it, too"})
	return t
}

// pool holds the machines of one pool.
type pool struct {
	name  string
	boxes []box
}

// byRole groups the machines of a cluster by role and pool.
func byRole(s *report.Status) (gateways, servers []box, pools []pool) {
	for i := range s.Machines {
		m := &s.Machines[i]
		b := boxOf(s.Name, *m)
		switch m.Role {
		case "gateway":
			gateways = append(gateways, b)
		case "control-plane":
			servers = append(servers, b)
		default:
			name, at := m.Pool, -1
			for i := range pools {
				if pools[i].name == name {
					at = i
				}
			}
			if at < 0 {
				pools, at = append(pools, pool{name: name}), len(pools)
			}
			pools[at].boxes = append(pools[at].boxes, b)
		}
	}
	return gateways, servers, pools
}

// row places boxes below y, and returns the y of the next row.
func (t *topology) row(y int, name string, all []box) (next int) {
	if name != "" {
		t.Labels = append(t.Labels, label{8, y + 4, fmt.Sprintf("%s: %d", name, len(all))})
		y += 12
	}
	w, h, gap, each := boxWidth, boxHeight, boxGap, perRow
	small := len(all) >= crowd
	if small && len(all) > mostSmall { // draw the machines with problems
		slices.SortStableFunc(all, func(a, b box) int { return worse(b.Class) - worse(a.Class) })
		defer func(more int) {
			t.Labels = append(t.Labels, label{8, next - rowGap + 26, fmt.Sprintf("and %d more", more)})
		}(len(all) - mostSmall)
		all = all[:mostSmall]
	}
	if small {
		w, h, gap, each = smallBox, smallBox, smallGap, perRow*(boxWidth+boxGap)/(smallBox+smallGap)
	}
	for i := range all {
		all[i].Small = small
		all[i].X, all[i].Y = 8+(i%each)*(w+gap), y+(i/each)*(h+gap)
		t.Width = max(t.Width, all[i].X+w+8)
	}
	t.Boxes = append(t.Boxes, all...)
	t.Height = all[len(all)-1].Y + h + 8
	return t.Height - 8 + rowGap
}

func (t *topology) wire(a, b box) {
	t.Wires = append(t.Wires, [4]int{a.X + a.Width()/2, a.Y + a.Height(), b.X + b.Width()/2, b.Y})
}

// boxOf returns a machine's box.
func boxOf(cluster string, m report.MachineStatus) box {
	b := box{Name: short(m.Name), Under: m.Address, Class: machineClass(&m), Href: "/ui/clusters/" + cluster + "/machines/" + m.Name}
	if m.Pool != "" && m.Pool != m.Role && m.Address != "" {
		b.Under = short(m.Pool + " · " + m.Address)
	}
	switch {
	case m.State != "running":
		b.Under = m.State
	case m.Etcd == "leader":
		b.Under += " · etcd leader"
	case strings.HasSuffix(m.Node, "cordoned"):
		b.Under += " · cordoned"
	}
	var about []string
	for _, f := range []struct{ name, value string }{{"machine", m.Name}, {"address", m.Address}, {"pool", m.Pool}, {"state", m.State}, {"configuration", m.Config}, {"node", m.Node}, {"version", m.Version}, {"etcd", m.Etcd}} {
		if f.value != "" {
			about = append(about, f.name+": "+f.value)
		}
	}
	b.Hover = strings.Join(about, "\n")
	return b
}

// machineClass returns the style class for a machine's state.
func machineClass(m *report.MachineStatus) string {
	switch {
	case m.State != "running":
		return "bad"
	case m.Config != "up to date" || m.Node != "" && !strings.HasPrefix(m.Node, "Ready"):
		return "warn"
	}
	return "ok"
}
