package main

import (
	"cmp"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// colors differ in print and for the colour-blind.
var colors = []color.Color{color.RGBA{0, 70, 140, 255}, color.RGBA{220, 120, 0, 255}}

// plots draws logins per second, and the 99th percentile, against the rate sent.
func plots(dir string, runs []*report) error {
	for _, picture := range []struct {
		file, title, unit string
		value             func(row) float64
		log               bool
	}{
		{"storm-logins.svg", "Logins answered", "logins per second", row.perSecond, false},
		{"storm-latency.svg", "Latency of logins, 99th percentile", "seconds", func(r row) float64 { return r.p99().Seconds() }, true},
	} {
		p := plot.New()
		p.BackgroundColor = color.White
		p.Title.Text = picture.title
		p.X.Label.Text = "sent per second"
		p.Y.Label.Text = picture.unit
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks{
			{Value: 8, Label: "8"}, {Value: 16, Label: "16"}, {Value: 32, Label: "32"}, {Value: 64, Label: "64"}, {Value: 128, Label: "128"}, {Value: 256, Label: "256"}}
		p.Y.Min = 0
		if picture.log {
			p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 2}
			p.Y.Min = 0.01
			limit := plotter.NewFunction(func(float64) float64 { return slow.Seconds() })
			limit.Color = color.Gray{128}
			limit.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(limit)
		}
		p.Legend.Top, p.Legend.Left = true, true
		p.Add(plotter.NewGrid())
		for i, r := range runs {
			var points plotter.XYs
			for _, row := range append(slices.Clone(r.rows), r.storm) {
				points = append(points, plotter.XY{X: row.rate, Y: picture.value(row)})
			}
			slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, dots.Color = colors[i], colors[i]
			line.Width, dots.Shape = vg.Points(1.5), plotutil.Shape(i)
			p.Add(line, dots)
			p.Legend.Add(builds[i].label, line, dots)
		}
		if err := p.Save(12*vg.Centimeter, 8*vg.Centimeter, filepath.Join(dir, picture.file)); err != nil {
			return err
		}
	}
	return nil
}
