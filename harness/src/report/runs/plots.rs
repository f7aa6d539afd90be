//! Plots, drawn by plotters: bars and step curves, as SVG text and as PNG files. Nothing else here knows plotters.
//!
//! Every curve has a marker of its own and every bar its label, so that colours carry nothing. Not here: what is plotted (`view`).

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::axis::{self, Axis, Unit};

/// Width of every plot, in pixels: narrow enough that a telephone shows its letters hardly smaller than the page's.
const WIDTH: i32 = 520;
const LETTER: f64 = 18.0;
const MARGIN: i32 = 14;
/// A label and the bar under it.
const ROW: i32 = 46;
const BAR: i32 = 15;
const AXIS: i32 = 50;
const CURVES_LEFT: i32 = 64;
const CURVES_HEIGHT: i32 = 230;
const LEGEND_ROW: i32 = 26;
/// Letters and axes. Pages replace it by the colour of their text.
pub(super) const INK: &str = "#111111";
/// What plots stand on. Pages replace it by what they stand on themselves.
pub(super) const PAPER: &str = "#FFFFFF";
const INK_COLOUR: RGBColor = RGBColor(0x11, 0x11, 0x11);
/// All of one middling brightness, so that each can be told from white and from black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xC6, 0x51, 0x02),
    RGBColor(0x00, 0x80, 0x5E),
    RGBColor(0xA3, 0x48, 0x9A),
    RGBColor(0x8A, 0x6D, 0x00),
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0x5B, 0x5F, 0xC7),
    RGBColor(0xB4, 0x3A, 0x4A),
];
/// Markers along a curve.
const MARKERS: usize = 5;
/// How much larger a PNG is than an SVG.
const PNG_SCALE: i32 = 2;

/// One bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    /// The value in words, beside the label.
    pub(super) text: String,
    pub(super) value: f64,
    /// Least and greatest sample.
    pub(super) range: Option<(f64, f64)>,
}

/// One curve, its points in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) label: String,
    /// The value and a share of one.
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) enum Plot {
    Bars {
        unit: Unit,
        bars: Vec<Bar>,
    },
    /// Shares over values; `steps` where a share holds until the next value.
    Curves {
        unit: Unit,
        steps: bool,
        curves: Vec<Curve>,
    },
}

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a plot cannot be drawn: {0}")]
pub struct Failure(String);

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

/// Plotters measures text by the letters it was given, so this comes before anything is drawn; the machine's fonts are not asked.
fn register_letters() -> Result<(), Failure> {
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| failure("its letters are damaged"))
}

/// The plot as an SVG document.
pub(super) fn svg(plot: &Plot) -> Result<String, Failure> {
    register_letters()?;
    let mut text = String::new();
    {
        let size = (WIDTH as u32, plot.height() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        Canvas { root, scale: 1 }.draw(plot).map_err(failure)?;
    }
    Ok(text)
}

/// The plot as a PNG file at `path`, whose name ends so.
pub(super) fn png(plot: &Plot, path: &Path) -> Result<(), Failure> {
    register_letters()?;
    let pixels = |length: i32| (length * PNG_SCALE) as u32;
    let size = (pixels(WIDTH), pixels(plot.height()));
    let root = BitMapBackend::new(path, size).into_drawing_area();
    let scale = PNG_SCALE;
    Canvas { root, scale }.draw(plot).map_err(failure)
}

impl Plot {
    fn height(&self) -> i32 {
        match self {
            Self::Bars { bars, .. } => MARGIN + ROW * bars.len() as i32 + AXIS,
            Self::Curves { curves, .. } => {
                let legend = LEGEND_ROW * curves.len().div_ceil(2) as i32;
                MARGIN + CURVES_HEIGHT + AXIS + legend
            }
        }
    }
}

type Drawing<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Where is drawn, and how many pixels one of the plot's takes.
struct Canvas<B: DrawingBackend> {
    root: DrawingArea<B, Shift>,
    scale: i32,
}

impl<B: DrawingBackend> Canvas<B> {
    fn draw(&self, plot: &Plot) -> Drawing<B> {
        self.root.fill(&WHITE)?;
        match plot {
            Plot::Bars { unit, bars } => self.bars(*unit, bars)?,
            Plot::Curves {
                unit,
                steps,
                curves,
            } => self.curves(*unit, *steps, curves)?,
        }
        self.root.present()
    }

    fn at(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.scale, y * self.scale)
    }

    fn text(&self, text: &str, place: (i32, i32), across: HPos) -> Drawing<B> {
        let size = LETTER * f64::from(self.scale);
        let style = ("sans-serif", size).into_text_style(&self.root);
        let style = style.color(&INK_COLOUR).pos(Pos::new(across, VPos::Top));
        self.root
            .draw(&Text::new(text.to_owned(), self.at(place), style))
    }

    fn path(&self, points: Vec<(i32, i32)>, style: ShapeStyle) -> Drawing<B> {
        let points: Vec<_> = points.into_iter().map(|place| self.at(place)).collect();
        self.root.draw(&PathElement::new(points, style))
    }

    fn stroke(&self, colour: RGBAColor, width: u32) -> ShapeStyle {
        colour.stroke_width(width * self.scale as u32)
    }

    fn rectangle(&self, corners: [(i32, i32); 2], style: ShapeStyle) -> Drawing<B> {
        let corners = corners.map(|place| self.at(place));
        self.root.draw(&Rectangle::new(corners, style))
    }

    /// Lines upward from every tick, with its label, and the unit under them.
    fn axis(&self, axis: &Axis, left: i32, top: i32, bottom: i32) -> Drawing<B> {
        let right = WIDTH - MARGIN;
        for (value, label) in &axis.ticks {
            let x = left + axis.place(*value, right - left);
            let line = self.stroke(INK_COLOUR.mix(0.2), 1);
            self.path(vec![(x, top), (x, bottom)], line)?;
            self.text(label, (x, bottom + 5), HPos::Center)?;
        }
        self.path(
            vec![(left, bottom), (right, bottom)],
            self.stroke(INK_COLOUR.mix(0.6), 1),
        )?;
        self.text(axis.title, (right, bottom + 26), HPos::Right)
    }

    fn bars(&self, unit: Unit, bars: &[Bar]) -> Drawing<B> {
        let values = bars.iter().flat_map(|bar| {
            let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        });
        let axis = axis::from_zero(unit, values);
        let (left, width) = (MARGIN, WIDTH - 2 * MARGIN);
        let bottom = MARGIN + ROW * bars.len() as i32;
        self.axis(&axis, left, MARGIN, bottom)?;
        let zero = left + axis.place(0.0, width);
        for (row, bar) in (0..).zip(bars) {
            let top = MARGIN + ROW * row;
            self.text(
                &format!("{}: {}", bar.label, bar.text),
                (left + 4, top),
                HPos::Left,
            )?;
            let (top, end) = (top + 24, left + axis.place(bar.value, width));
            let corners = [(zero.min(end), top), (zero.max(end), top + BAR)];
            self.rectangle(corners, COLOURS[0].filled())?;
            let line = self.stroke(INK_COLOUR.to_rgba(), 1);
            self.path(vec![(zero, top - 2), (zero, top + BAR + 2)], line)?;
            if let Some((low, high)) = bar.range.filter(|(low, high)| low < high) {
                let (from, to) = (
                    left + axis.place(low, width),
                    left + axis.place(high, width),
                );
                let middle = top + BAR / 2;
                let line = self.stroke(INK_COLOUR.to_rgba(), 2);
                self.path(vec![(from, middle), (to, middle)], line)?;
                for end in [from, to] {
                    self.path(vec![(end, top + 2), (end, top + BAR - 2)], line)?;
                }
            }
        }
        Ok(())
    }

    fn curves(&self, unit: Unit, steps: bool, curves: &[Curve]) -> Drawing<B> {
        let values = curves.iter().flat_map(|curve| &curve.points);
        let axis = axis::spanning(unit, values.map(|point| point.0));
        let (top, bottom) = (MARGIN, MARGIN + CURVES_HEIGHT);
        let width = WIDTH - MARGIN - CURVES_LEFT;
        self.axis(&axis, CURVES_LEFT, top, bottom)?;
        let place = |&(value, share): &(f64, f64)| {
            let up = (share * f64::from(CURVES_HEIGHT)).round() as i32;
            (CURVES_LEFT + axis.place(value, width), bottom - up)
        };
        for quarter in 0..=4 {
            let y = bottom - CURVES_HEIGHT * quarter / 4;
            let line = self.stroke(INK_COLOUR.mix(0.2), 1);
            self.path(vec![(CURVES_LEFT, y), (WIDTH - MARGIN, y)], line)?;
            let label = format!("{} %", quarter * 25);
            self.text(&label, (CURVES_LEFT - 6, (y - 9).max(0)), HPos::Right)?;
        }
        for (number, curve) in curves.iter().enumerate() {
            let places: Vec<_> = curve.points.iter().map(place).collect();
            let line = self.stroke(COLOURS[number % COLOURS.len()].to_rgba(), 2);
            self.path(
                if steps {
                    stairs(&places, bottom)
                } else {
                    places.clone()
                },
                line,
            )?;
            for at in marked(places.len(), number, curves.len()) {
                self.marker(number, places[at])?;
            }
            let column = number % 2;
            let legend = (
                MARGIN + 8 + column as i32 * (WIDTH / 2),
                bottom + AXIS + LEGEND_ROW * (number / 2) as i32 + 9,
            );
            self.marker(number, legend)?;
            self.text(&curve.label, (legend.0 + 14, legend.1 - 9), HPos::Left)?;
        }
        Ok(())
    }

    /// One shape for each of eight curves; what comes after begins again.
    fn marker(&self, number: usize, (x, y): (i32, i32)) -> Drawing<B> {
        let colour = COLOURS[number % COLOURS.len()];
        let (fill, line) = (colour.filled(), self.stroke(colour.to_rgba(), 2));
        let square = [(x - 4, y - 4), (x + 4, y + 4)];
        let closed = |points: Vec<(i32, i32)>| {
            let points = points.into_iter().map(|(dx, dy)| self.at((x + dx, y + dy)));
            points.collect::<Vec<_>>()
        };
        match number % 8 {
            0 => self
                .root
                .draw(&Circle::new(self.at((x, y)), 5 * self.scale, fill)),
            1 => self.rectangle(square, fill),
            2 => (self.root).draw(&Polygon::new(closed(vec![(-6, 5), (6, 5), (0, -6)]), fill)),
            3 => {
                self.path(vec![(x - 5, y - 5), (x + 5, y + 5)], line)?;
                self.path(vec![(x - 5, y + 5), (x + 5, y - 5)], line)
            }
            4 => self
                .root
                .draw(&Circle::new(self.at((x, y)), 5 * self.scale, line)),
            5 => self.rectangle(square, line),
            6 => {
                let corners = closed(vec![(-6, 0), (0, -6), (6, 0), (0, 6)]);
                self.root.draw(&Polygon::new(corners, fill))
            }
            _ => {
                self.path(vec![(x - 6, y), (x + 6, y)], line)?;
                self.path(vec![(x, y - 6), (x, y + 6)], line)
            }
        }
    }
}

/// Which of a curve's points have a marker: all of a few, else some, others than its neighbours have.
fn marked(points: usize, number: usize, curves: usize) -> Vec<usize> {
    if points <= MARKERS {
        return (0..points).collect();
    }
    let share =
        |marker: usize| (marker as f64 + (number as f64 + 0.5) / curves as f64) / MARKERS as f64;
    (0..MARKERS)
        .map(|marker| ((share(marker) * points as f64) as usize).min(points - 1))
        .collect()
}

/// Points joined so that each share holds up to the next value, from the ground.
fn stairs(places: &[(i32, i32)], bottom: i32) -> Vec<(i32, i32)> {
    let mut path = Vec::with_capacity(2 * places.len());
    let mut height = bottom;
    for &(x, y) in places {
        if path.last() != Some(&(x, height)) {
            path.push((x, height));
        }
        path.push((x, y));
        height = y;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(points: &[(f64, f64)]) -> Plot {
        let curve = Curve {
            label: "<b> & \"c\"".to_owned(),
            points: points.to_vec(),
        };
        Plot::Curves {
            unit: Unit::Time,
            steps: true,
            curves: vec![curve; 9],
        }
    }

    #[test]
    fn a_plot_is_the_same_bytes_each_time_and_its_labels_are_escaped() {
        let plot = curves(&[(1e6, 0.5), (2e8, 1.0)]);
        let text = svg(&plot).unwrap();
        assert_eq!(text, svg(&plot).unwrap());
        assert!(
            text.contains("&lt;b&gt; &amp; &quot;c&quot;") && !text.contains("<b>"),
            "{text}"
        );
        assert!(text.starts_with("<svg ") && text.contains(INK) && text.contains(PAPER));
    }

    #[test]
    fn nothing_negative_numbers_and_one_value_can_be_drawn() {
        let bar = |value: f64| Bar {
            label: "a".to_owned(),
            text: "b".to_owned(),
            value,
            range: Some((value, value)),
        };
        for values in [&[][..], &[0.0], &[-3e9, 0.0], &[-1.0], &[1.0, 1e18]] {
            let bars = values.iter().copied().map(bar).collect();
            svg(&Plot::Bars {
                unit: Unit::Time,
                bars,
            })
            .unwrap();
        }
        for points in [
            &[][..],
            &[(0.0, 1.0)],
            &[(5.0, 1.0)],
            &[(0.0, 0.5), (1e12, 1.0)],
        ] {
            svg(&curves(points)).unwrap();
        }
    }

    #[test]
    fn a_png_is_written_without_any_font_of_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.png");
        png(&curves(&[(1e6, 0.5), (2e8, 1.0)]), &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 4000);
    }

    #[test]
    fn a_staircase_rises_where_a_value_stands() {
        assert_eq!(
            stairs(&[(1, 8), (4, 3)], 10),
            [(1, 10), (1, 8), (4, 8), (4, 3)]
        );
    }
}
