//! Time to pixels, and ticks at round times.

/// Microseconds to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    micros: u64,
    left: f64,
    width: f64,
}

impl Scale {
    /// From 0 to `micros` over `width` pixels that begin at `left`.
    pub fn new(micros: u64, left: f64, width: f64) -> Self {
        Scale { micros: micros.max(1), left, width }
    }

    /// Where a time is.
    pub fn x(&self, micros: u64) -> f64 {
        self.left + self.width * (micros.min(self.micros) as f64 / self.micros as f64)
    }

    /// How many microseconds a pixel is.
    pub fn micros_per_pixel(&self) -> u64 {
        (self.micros as f64 / self.width).ceil() as u64
    }

    /// Round times, at most about `count` of them, with their names.
    pub fn ticks(&self, count: u64) -> Vec<(u64, String)> {
        let mut step = 1;
        while self.micros / step > count {
            // 1, 2, 5, 10, 20, 50, …
            step = match step.to_string().as_bytes()[0] {
                b'2' => step / 2 * 5,
                _ => step * 2,
            };
        }
        (0..=self.micros / step).map(|i| (i * step, time(i * step))).collect()
    }
}

/// A time in words: `0`, `150 µs`, `20 ms`, `1.5 s`.
pub fn time(micros: u64) -> String {
    let trim = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    match micros {
        0 => "0".into(),
        1..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", trim(format!("{:.1}", micros as f64 / 1e3))),
        _ => format!("{} s", trim(format!("{:.2}", micros as f64 / 1e6))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for micros in [1, 999, 12_345, 1_000_000, 7_654_321, 3_600_000_000] {
            let ticks = Scale::new(micros, 0.0, 100.0).ticks(12);
            assert!(ticks.len() <= 13, "{micros}: {ticks:?}");
            assert!(ticks.len() >= 2, "{micros}: {ticks:?}");
            let first = ticks[1].0.to_string();
            assert!(matches!(first.trim_end_matches('0'), "1" | "2" | "5"), "{micros}: {first}");
        }
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let reported: Vec<String> = [0, 150, 20_000, 1_500, 1_500_000, 61_000_000].into_iter().map(time).collect();
        assert_eq!(reported, ["0", "150 µs", "20 ms", "1.5 ms", "1.5 s", "61 s"]);
    }

    #[test]
    fn a_time_has_its_place() {
        let scale = Scale::new(1000, 100.0, 500.0);
        assert_eq!((scale.x(0), scale.x(500), scale.x(1000), scale.x(2000)), (100.0, 350.0, 600.0, 600.0));
        assert_eq!(scale.micros_per_pixel(), 2);
    }
}
