//! The picture: a row for each rank, time from left to right. What has details shows them where the pointer is.

use super::rows::{ActivitySpan, Mark, RankActivity, RankRow, RunTimeline};
use super::scale::{time, Scale};
use rejoin_agent::protocol::profile::Stretch;
use svg::node::element::{Circle, Definitions, Group, Line, Path, Pattern, Rectangle, Style, Text, Title};
use svg::{Document, Node};

const WIDTH: f64 = 1280.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 118.0;
const ROW: f64 = 30.0;
const PITCH: f64 = 46.0;
const BOTTOM: f64 = 46.0;
/// Ticks are left out where they would run into the one before, and so are their labels.
const TICK_GAP: f64 = 3.0;

const COMPUTING: &str = "#2a9d8f";
const EXCHANGING: &str = "#3a6ea5";
const WAITING: &str = "#f2c879";
const HANDED: &str = "#9d7ad1";

const STYLE: &str = "\
text { font-family: 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif; fill: #263238; }
.title { font-size: 17px; font-weight: bold; }
.sub { font-size: 12px; fill: #546e7a; }
.rank { font-size: 13px; font-weight: bold; text-anchor: end; }
.deaths { font-size: 10px; fill: #c0392b; text-anchor: end; }
.axis { font-size: 11px; fill: #546e7a; text-anchor: middle; }
.view { font-size: 9px; fill: #90a4ae; text-anchor: middle; }
.version { font-size: 9px; fill: #546e7a; text-anchor: middle; }
.inside { font-size: 10px; fill: #37474f; }
.legend { font-size: 11px; }";

/// Draws a run.
pub fn picture(timeline: &RunTimeline) -> Document {
    let rows = timeline.rows.len() as f64;
    let height = TOP + rows * PITCH + BOTTOM;
    let scale = Scale::new(timeline.micros, LEFT, WIDTH - LEFT - RIGHT);
    let floor = TOP + rows * PITCH - (PITCH - ROW) / 2.0;
    let mut document = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("role", "img")
        .add(Title::new(format!("rejoin: {}", timeline.command)))
        .add(Style::new(STYLE))
        .add(hatches())
        .add(Rectangle::new().set("width", WIDTH).set("height", height).set("fill", "#ffffff"))
        .add(text(24.0, 32.0, "title", shorten(&timeline.command, 120)))
        .add(text(24.0, 52.0, "sub", shorten(&timeline.summary(), 190)))
        .add(legend());
    document.append(grid(&scale, floor));
    document.append(views(timeline, &scale, floor));
    for (rank, row) in timeline.rows.iter().enumerate() {
        document.append(draw_row(rank, row, TOP + rank as f64 * PITCH, &scale));
    }
    document
}

fn text(x: f64, y: f64, class: &str, content: impl Into<String>) -> Text {
    Text::new(content.into()).set("x", round(x)).set("y", round(y)).set("class", class)
}

/// A tenth of a pixel is enough.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn bar(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Rectangle {
    Rectangle::new()
        .set("x", round(x))
        .set("y", round(y))
        .set("width", round(width.max(0.3)))
        .set("height", round(height))
        .set("fill", fill)
}

fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_string();
    }
    text.chars().take(limit - 1).chain(['…']).collect()
}

fn hatch(id: &str, ground: &str, line: &str) -> Pattern {
    Pattern::new()
        .set("id", id)
        .set("width", 6)
        .set("height", 6)
        .set("patternUnits", "userSpaceOnUse")
        .set("patternTransform", "rotate(45)")
        .add(Rectangle::new().set("width", 6).set("height", 6).set("fill", ground))
        .add(Line::new().set("y2", 6).set("stroke", line).set("stroke-width", 3))
}

fn hatches() -> Definitions {
    Definitions::new().add(hatch("lost", "#fdecea", "#e57368")).add(hatch("starting", "#f5f7f8", "#cfd8dc")).add(hatch(
        "trackerless",
        "#fffdf5",
        "#f5e6b8",
    ))
}

/// What a state is filled with. A rank at work is pale where nothing is known of how it spent its time.
fn fill(state: RankActivity) -> &'static str {
    match state {
        RankActivity::Starting => "url(#starting)",
        RankActivity::Meeting => "#dfe6e9",
        RankActivity::Fetching => "#6c4ab6",
        RankActivity::Replaying => "#cbb8ec",
        RankActivity::Working => "#b9e0da",
        RankActivity::Finished => "#eceff1",
        RankActivity::Lost => "url(#lost)",
    }
}

fn legend() -> Group {
    let mut group = Group::new().set("class", "legend");
    let states = [RankActivity::Starting, RankActivity::Meeting, RankActivity::Working];
    let recovery = [RankActivity::Lost, RankActivity::Fetching, RankActivity::Replaying, RankActivity::Finished];
    let mut entries: Vec<(&str, &str)> = states.iter().map(|state| (fill(*state), state.name())).collect();
    entries.extend([(COMPUTING, "computing"), (EXCHANGING, "exchanging"), (WAITING, "waiting for others")]);
    entries.push((HANDED, "handed recorded results"));
    entries.extend(recovery.iter().map(|state| (fill(*state), state.name())));
    let mut x = 24.0;
    for (color, name) in entries {
        group.append(bar(x, 66.0, 14.0, 12.0, color).set("stroke", "#b0bec5").set("stroke-width", 0.5).set("rx", 2));
        group.append(text(x + 19.0, 76.0, "legend", name));
        x += 33.0 + name.chars().count() as f64 * 6.7;
    }
    group
}

fn grid(scale: &Scale, floor: f64) -> Group {
    let mut group = Group::new();
    for (micros, name) in scale.ticks(14) {
        let x = round(scale.x(micros));
        let line = Line::new().set("x1", x).set("x2", x).set("y1", TOP - 8.0).set("y2", floor + 8.0);
        group.append(line.set("stroke", "#eceff1"));
        group.append(text(x, floor + 24.0, "axis", name));
    }
    group
}

/// Views as dashed lines, named above the rows where there is room; and the times without a tracker.
fn views(timeline: &RunTimeline, scale: &Scale, floor: f64) -> Group {
    let mut group = Group::new();
    for (from, to) in &timeline.trackerless {
        let (x, width) = (scale.x(*from), scale.x(*to) - scale.x(*from));
        let away = bar(x, TOP - 8.0, width, floor - TOP + 16.0, "url(#trackerless)").set("opacity", 0.8);
        group.append(away.add(Title::new(format!("no tracker for {}", time(to - from)))));
        group.append(text(x + 3.0, floor + 6.0, "view", "no tracker").set("style", "text-anchor: start"));
    }
    let mut free = 0.0;
    for (at, name, reason) in &timeline.views {
        let x = round(scale.x(*at));
        let line = Line::new().set("x1", x).set("x2", x).set("y1", TOP - 10.0).set("y2", floor + 4.0);
        let line = line.set("stroke", "#b0bec5").set("stroke-width", 0.7).set("stroke-dasharray", "2 3");
        group.append(Group::new().add(Title::new(format!("view {name}: {reason}"))).add(line));
        if x >= free {
            group.append(text(x, TOP - 14.0, "view", name.as_str()));
            free = x + 10.0 + 6.0 * name.len() as f64;
        }
    }
    group
}

fn draw_row(rank: usize, row: &RankRow, y: f64, scale: &Scale) -> Group {
    let mut group = Group::new();
    group.append(text(LEFT - 14.0, y + 19.0, "rank", format!("rank {rank}")));
    if row.deaths() > 0 {
        let deaths = match row.deaths() {
            1 => "died once".into(),
            2 => "died twice".into(),
            more => format!("died {more} times"),
        };
        group.append(text(LEFT - 14.0, y + 31.0, "deaths", deaths));
    }
    for phase in &row.phases {
        let (x, width) = (scale.x(phase.from), scale.x(phase.to) - scale.x(phase.from));
        let timeline =
            format!("rank {rank}: {} for {} ({})", phase.state.name(), time(phase.to - phase.from), phase.detail);
        group.append(bar(x, y, width, ROW, fill(phase.state)).add(Title::new(timeline)));
    }
    for span in merged(&row.spans, scale.micros_per_pixel()) {
        group.append(draw_spell(rank, &span, y, scale));
    }
    for phase in row.phases.iter().filter(|phase| phase.state == RankActivity::Lost) {
        let (x, width) = (scale.x(phase.from), scale.x(phase.to) - scale.x(phase.from));
        if width > 34.0 {
            group.append(text(x + 10.0, y + 19.0, "inside", "lost"));
        }
    }
    marks(&mut group, row, y, scale);
    group
}

/// Stretches too narrow to be seen are added up to what is wide enough.
fn merged(spans: &[ActivitySpan], least: u64) -> Vec<ActivitySpan> {
    let mut merged: Vec<ActivitySpan> = Vec::new();
    for span in spans {
        if let Some(last) = merged.last_mut() {
            let near = span.from.saturating_sub(last.to) <= least;
            if near && last.to - last.from < least {
                last.to = last.to.max(span.to);
                last.stretch = sum(last.stretch, span.stretch);
                continue;
            }
        }
        merged.push(span.clone());
    }
    merged
}

fn sum(one: Stretch, other: Stretch) -> Stretch {
    let longer = if other.waiting_micros > one.waiting_micros { other.waited_for } else { one.waited_for };
    Stretch {
        micros: one.micros.saturating_add(other.micros),
        computing_micros: one.computing_micros.saturating_add(other.computing_micros),
        waiting_micros: one.waiting_micros.saturating_add(other.waiting_micros),
        replaying_micros: one.replaying_micros.saturating_add(other.replaying_micros),
        waited_for: longer.or(one.waited_for).or(other.waited_for),
        calls: one.calls.saturating_add(other.calls),
    }
}

/// A stretch as a pile: what it was spent with takes as much of the height as of the time.
fn draw_spell(rank: usize, span: &ActivitySpan, y: f64, scale: &Scale) -> Group {
    let Stretch { micros, computing_micros, waiting_micros, replaying_micros, waited_for, calls } = span.stretch;
    let (x, width) = (scale.x(span.from), scale.x(span.to) - scale.x(span.from));
    let whole = micros.max(1);
    let exchanging =
        whole.saturating_sub(computing_micros).saturating_sub(waiting_micros).saturating_sub(replaying_micros);
    let pile = [
        (waiting_micros, WAITING),
        (replaying_micros, HANDED),
        (exchanging, EXCHANGING),
        (computing_micros, COMPUTING),
    ];
    let whom = waited_for.map_or(String::new(), |peer| format!(", mostly for rank {peer}"));
    let mut group = Group::new().add(Title::new(format!(
        "rank {rank}, {}: {} in {calls} calls: computing {}, exchanging {}, waiting {}{whom}, handed recorded results \
         {}",
        span.place,
        time(micros),
        time(computing_micros),
        time(exchanging),
        time(waiting_micros),
        time(replaying_micros)
    )));
    let mut top = y;
    for (part, color) in pile.into_iter().filter(|(part, _)| *part > 0) {
        let height = ROW * part as f64 / whole as f64;
        group.append(bar(x, top, width, height, color));
        top += height;
    }
    if let Some(peer) = waited_for.filter(|_| waiting_micros > whole / 2) {
        let label = if width > 76.0 { format!("waits for {peer}") } else { format!("{peer}") };
        if width > 16.0 {
            group.append(text(x + 4.0, y + 12.0, "inside", label));
        }
    }
    group
}

fn marks(group: &mut Group, row: &RankRow, y: f64, scale: &Scale) {
    let (mut free, mut labels_free) = (0.0, 0.0);
    for (at, mark) in &row.marks {
        let x = round(scale.x(*at));
        match mark {
            Mark::Version(version) if x >= free => {
                let line = Line::new().set("x1", x).set("x2", x).set("y1", y + ROW - 5.0).set("y2", y + ROW + 2.0);
                group.append(line.set("stroke", "#546e7a").set("stroke-width", 0.8));
                free = x + TICK_GAP;
                let label = version.to_string();
                let half = 3.5 * label.len() as f64;
                if x - half >= labels_free {
                    labels_free = x + half + 6.0;
                    group.append(text(x, y + ROW + 10.5, "version", label));
                }
            }
            Mark::Version(_) => {}
            Mark::Fault(rule) => {
                let bolt = format!("M{} {} l-4.5 10 h4 l-2.5 9 l8 -12 h-4.2 l3 -7 z", x, round(y - 9.0));
                let bolt =
                    Path::new().set("d", bolt).set("fill", "#f1c40f").set("stroke", "#7d6608").set("stroke-width", 0.8);
                group.append(bolt.add(Title::new(format!("{}: rule `{rule}` fired", time(*at)))));
            }
            Mark::Death(how) => {
                let (left, right, top, foot) = (x - 4.0, x + 4.0, y + 11.0, y + 19.0);
                let cross = format!("M{left} {top} L{right} {foot} M{left} {foot} L{right} {top}");
                let cross =
                    Path::new().set("d", cross).set("stroke", "#c0392b").set("stroke-width", 2.4).set("fill", "none");
                group.append(cross.add(Title::new(format!("{}: died: {how}", time(*at)))));
            }
            Mark::CaughtUp(detail) => {
                let dot = Circle::new().set("cx", x).set("cy", round(y)).set("r", 4).set("fill", "#27ae60");
                group.append(dot.set("stroke", "#ffffff").add(Title::new(format!("{}: {detail}", time(*at)))));
            }
        }
    }
}
