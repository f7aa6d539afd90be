//! The date a template may ask for, as C's `strftime` spells it in English.
//!
//! Not here: reading a clock, time zones; whoever calls decides what time it is.

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: i64 = 86_400;

/// A moment in the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    year: i64,
    /// 1 to 12.
    month: i64,
    /// 1 to 31.
    day: i64,
    /// 1 to 366.
    day_of_year: i64,
    /// 0 is Sunday.
    weekday: i64,
    second_of_day: i64,
}

impl Clock {
    /// The moment `seconds` after 1970-01-01 00:00; add an offset first to speak of a local time.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        // Years counted from 1 March of 0 put the leap day last; an era is the calendar's 400-year period.
        let (era, day_of_era) = (
            (days + 719_468).div_euclid(146_097),
            (days + 719_468).rem_euclid(146_097),
        );
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_march_year =
            day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_march_year + 2) / 153;
        let month = (march_month + 2) % 12 + 1;
        let year = 400 * era + year_of_era + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month <= 2 {
            day_of_march_year - 306 + 1
        } else {
            day_of_march_year + 59 + i64::from(leap) + 1
        };
        Self {
            year,
            month,
            day: day_of_march_year - (153 * march_month + 2) / 5 + 1,
            day_of_year,
            weekday: (days + 4).rem_euclid(7),
            second_of_day: seconds.rem_euclid(SECONDS_PER_DAY),
        }
    }

    /// `format` with every `%` code replaced; `%-d` and its like leave the padding out. An unknown code is the error,
    /// in words.
    pub fn strftime(self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let (code, bare) = match rest.next() {
                Some('-') => (rest.next(), true),
                code => (code, false),
            };
            let spelled = code.and_then(|code| self.spell(code, bare));
            text += &spelled.ok_or_else(|| {
                let code: String = code.into_iter().collect();
                format!("does not know `%{code}`; it knows a A b B d e F H I j m M p S T y Y")
            })?;
        }
        Ok(text)
    }

    fn spell(self, code: char, bare: bool) -> Option<String> {
        let padded = |value: i64, width: usize| {
            let width = if bare { 0 } else { width };
            format!("{value:0width$}")
        };
        let (hour, minute) = (self.second_of_day / 3_600, self.second_of_day / 60 % 60);
        let second = self.second_of_day % 60;
        let (weekday, month) = (DAYS[self.weekday as usize], MONTHS[self.month as usize - 1]);
        Some(match code {
            'a' => weekday[..3].to_owned(),
            'A' => weekday.to_owned(),
            'b' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'd' => padded(self.day, 2),
            'e' if bare => self.day.to_string(),
            'e' => format!("{:2}", self.day),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'H' => padded(hour, 2),
            'I' => padded((hour + 11) % 12 + 1, 2),
            'j' => padded(self.day_of_year, 3),
            'm' => padded(self.month, 2),
            'M' => padded(minute, 2),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'S' => padded(second, 2),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'y' => padded(self.year.rem_euclid(100), 2),
            'Y' => self.year.to_string(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}
