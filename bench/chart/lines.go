package chart

import (
	"fmt"
	"strings"
)

// Point is one measured value, with the range of its rounds; Low and High both 0:
// it has none.
type Point struct {
	X, Y, Low, High float64
}

// Series is a line of points, in the order of X.
type Series struct {
	Name   string
	Points []Point
}

// Panel is a field of lines over a horizontal axis.
type Panel struct {
	X, Y   Axis
	Series []Series // at most five
}

// Lines is a chart of one panel, or of several side by side.
type Lines struct {
	Title, Description string
	Panels             []Panel
}

// The sizes in pixels.
const (
	width  = 860.0
	margin = 18.0
	left   = 62.0 // for the labels of a vertical axis
	top    = 92.0
	plot   = 240.0
	bottom = 52.0
)

// SVG draws the chart.
func (l Lines) SVG() []byte {
	each := (width - margin) / float64(len(l.Panels))
	above := 0.0
	for _, p := range l.Panels {
		above = max(above, legendHeight(each-margin, p.names()))
	}
	c := open(l.Title, l.Description, width, top+above+plot+bottom)
	for i, p := range l.Panels {
		x := margin + float64(i)*each
		c.text(x, top-40, "head", "start", p.Y.Title+scaleNote(p.y().scale))
		c.legend(x, top-17, each-margin, p.names(), true)
		p.draw(c, box{x + left, top + above, each - left - margin, plot})
	}
	return c.close()
}

// box is where the points go.
type box struct{ x, y, w, h float64 }

func (p Panel) names() (names []string) {
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	return names
}

func (p Panel) x() *ruler {
	var all []float64
	for _, s := range p.Series {
		for _, at := range s.Points {
			all = append(all, at.X)
		}
	}
	return p.X.ruler(all)
}

func (p Panel) y() *ruler {
	var all []float64
	for _, s := range p.Series {
		for _, at := range s.Points {
			all = append(all, at.Y)
			if at.High > 0 {
				all = append(all, at.Low, at.High)
			}
		}
	}
	return p.Y.ruler(all)
}

func (p Panel) draw(c *canvas, b box) {
	x, y := p.x(), p.y()
	for _, t := range y.ticks {
		at := b.y + b.h*(1-t.at)
		c.line(gridClass(t), b.x, at, b.x+b.w, at)
		c.text(b.x-8, at+4, "tick", "end", t.label)
	}
	for _, t := range spread(x.ticks, b.w) {
		at := b.x + b.w*t.at
		c.line(gridClass(t), at, b.y, at, b.y+b.h)
		c.text(at, b.y+b.h+18, "tick", "middle", t.label)
	}
	c.add(`<rect class="frame" x="%s" y="%s" width="%s" height="%s"/>`, b.x, b.y, b.w, b.h)
	c.text(b.x+b.w/2, b.y+b.h+40, "", "middle", p.X.Title+scaleNote(x.scale))
	for n, s := range p.Series {
		s.draw(c, n, b, x, y)
	}
}

func scaleNote(s Scale) string {
	if s == Log {
		return " (log scale)"
	}
	return ""
}

func gridClass(t tick) string {
	if t.minor {
		return "minor"
	}
	return "grid"
}

// spread drops labels that would run into their neighbour.
func spread(ticks []tick, room float64) []tick {
	end := -1000.0
	for i, t := range ticks {
		half := textWidth(t.label) / 2
		if t.label != "" && t.at*room-half < end {
			ticks[i].label = ""
		} else if t.label != "" {
			end = t.at*room + half + 4
		}
	}
	return ticks
}

func (s Series) draw(c *canvas, n int, b box, x, y *ruler) {
	type spot struct{ x, y float64 }
	var spots []spot
	var path strings.Builder
	for _, p := range s.Points {
		if !x.scale.shows(p.X) || !y.scale.shows(p.Y) {
			continue
		}
		at := spot{b.x + b.w*x.place(p.X), b.y + b.h*(1-y.place(p.Y))}
		spots = append(spots, at)
		fmt.Fprintf(&path, "%s,%s ", number(at.x), number(at.y))
		if p.High > p.Low && y.scale.shows(p.Low) {
			c.line(fmt.Sprintf("range c%d", n%5), at.x, b.y+b.h*(1-y.place(p.Low)), at.x, b.y+b.h*(1-y.place(p.High)))
		}
	}
	c.add(`<polyline class="line c%d" points="%s" stroke-dasharray="%s"/>`, n%5, path.String(), patterns[n%5])
	for _, at := range spots {
		c.mark(n, false, at.x, at.y)
	}
}
