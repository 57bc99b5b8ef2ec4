// Package chart draws figures as SVG files that read well on a light and on a dark
// page. Each file carries both sets of colours and its own background, so it can
// stand in an <img>. No series is told by its colour alone: each has a mark and a
// line pattern of its own.
package chart
