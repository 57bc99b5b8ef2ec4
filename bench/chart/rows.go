package chart

import (
	"fmt"
	"slices"
)

// Value is a mark in a row, with the range of its rounds.
type Value struct {
	Series        int // its number, from 0
	At, Low, High float64
	Hollow        bool
	Label         string // beside the mark; empty: none
}

// Row is one line of a chart of rows.
type Row struct {
	Name   string
	Values []Value
}

// Rows is a chart with a name before each line of marks.
type Rows struct {
	Title, Description string
	Axis               Axis
	Series             []string // names for the legend; one alone needs none
	Rows               []Row
	Note               string  // in place of a legend
	Line               float64 // a line across all rows at this value; 0: none
	LineName           string
}

const (
	rowHeight = 26.0
	rowTop    = 74.0
	rowBottom = 48.0
)

// SVG draws the chart.
func (r Rows) SVG() []byte {
	top := rowTop
	if len(r.Series) < 2 && r.Note == "" && r.Line == 0 {
		top -= 26
	} else if r.Line > 0 {
		top += 14
	}
	height := top + rowHeight*float64(len(r.Rows)) + rowBottom
	c := open(r.Title, r.Description, width, height)
	names := 0.0
	values := []float64{}
	if r.Line > 0 {
		values = append(values, r.Line)
	}
	for _, row := range r.Rows {
		names = max(names, textWidth(row.Name))
		for _, v := range row.Values {
			values = append(values, v.At)
			if v.High > 0 {
				values = append(values, v.Low, v.High)
			}
		}
	}
	names = min(names, 470) // a longer one is cut at its beginning
	b := box{margin + names + 12, top, 0, rowHeight * float64(len(r.Rows))}
	b.w = width - b.x - margin - 64 // labels stand right of the marks
	if len(r.Series) > 1 {
		c.legend(margin-8, 54, width-2*margin, r.Series, false)
	}
	c.text(margin, 50, "tick", "start", r.Note)
	r.draw(c, b, r.Axis.ruler(values))
	return c.close()
}

func (r Rows) draw(c *canvas, b box, x *ruler) {
	for _, t := range spread(slices.Clone(x.ticks), b.w) {
		at := b.x + b.w*t.at
		c.line(gridClass(t), at, b.y, at, b.y+b.h)
		c.text(at, b.y+b.h+17, "tick", "middle", t.label)
	}
	c.text(b.x+b.w/2, b.y+b.h+38, "", "middle", r.Axis.Title+scaleNote(x.scale))
	if r.Line > 0 {
		at := b.x + b.w*x.place(r.Line)
		c.line("goal", at, b.y-6, at, b.y+b.h)
		c.text(at, b.y-11, "head", "middle", r.LineName)
	}
	for i, row := range r.Rows {
		y := b.y + rowHeight*(float64(i)+0.5)
		c.text(b.x-12, y+4, "", "end", row.Name)
		for _, v := range row.Values {
			v.draw(c, b, x, y)
		}
	}
}

func (v Value) draw(c *canvas, b box, x *ruler, y float64) {
	if !x.scale.shows(v.At) {
		return
	}
	at, end := b.x+b.w*x.place(v.At), 0.0
	if v.High > v.Low && x.scale.shows(v.Low) {
		end = b.x + b.w*x.place(v.High)
		c.line(fmt.Sprintf("range c%d", v.Series%5), b.x+b.w*x.place(v.Low), y, end, y)
	}
	c.mark(v.Series, v.Hollow, at, y)
	if v.Label != "" {
		c.text(max(at, end)+10, y+4, "value", "start", v.Label)
	}
}
