//! Steps of the change feed: a program subscribes at a remembered sequence number, and pulls.
//!
//! `subscriber` compares the events.

use crate::{
    run::{Excuse, Run},
    settings::{FeedUse, Retained},
    subscriber::{Interest, Seen, Subscriber},
    violation::{Checked, Violation},
};
use siltdb::{ErrorKind, Event, Subscription};

/// The start of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Next,
    Oldest,
    At(u64),
}

impl Run {
    /// Reads some events. Subscribes first if no subscription is open, and sometimes otherwise.
    pub(crate) fn read_feed(&mut self) -> Checked<()> {
        let is_unclear = self.poisoned || self.visible > self.model.acknowledged();
        if is_unclear || self.settings.feed_use == FeedUse::Never {
            return self.read();
        }
        for (index, family) in self.database.families.iter().chain(&self.database.guests) {
            self.subscriber.learn(*index, family.id());
        }
        if self.subscriber.subscription.is_none() || self.draw.chance(1, 8) {
            self.subscribe()?;
        }
        let most = self.draw.pick(&[1, 4, 30, u64::MAX, u64::MAX]);
        for _ in 0..most {
            if !self.pull()? {
                break;
            }
        }
        if self.draw.chance(1, 3) {
            self.subscriber.mark();
        }
        Ok(())
    }

    fn subscribe(&mut self) -> Checked<()> {
        self.subscriber.subscription = None;
        let end = self.database.db.snapshot().sequence() + 1;
        let begin = match self.draw.below(if self.subscriber.is_reopened { 4 } else { 8 }) {
            0 if !self.subscriber.is_reopened => Begin::Next,
            1 => Begin::Oldest,
            2 if !self.subscriber.marks.is_empty() => {
                Begin::At(self.subscriber.marks[self.draw.index(self.subscriber.marks.len())])
            }
            _ => Begin::At(self.subscriber.position),
        };
        let interest = self.interest();
        let family = interest.family.map(|index| &self.database.families[&index]);
        let options = Subscriber::options(&interest, family);
        let options = match begin {
            Begin::Next => options,
            Begin::Oldest => options.from_oldest(),
            Begin::At(sequence) => options.from(sequence),
        };
        self.note(format!("subscribe {begin:?} of {end}, {interest:?}"));
        let is_resumed = std::mem::take(&mut self.subscriber.is_reopened);
        let everything = self.settings.retained == Retained::Everything;
        let subscription = match (self.database.db.subscribe(&options), begin) {
            (Ok(subscription), _) => subscription,
            (Err(error), Begin::At(sequence))
                if error.kind() == ErrorKind::InvalidArgument && sequence > end =>
            {
                self.report.feeds.too_new += 1;
                self.subscriber.position = end;
                return Ok(());
            }
            (Err(error), Begin::At(sequence))
                if error.kind() == ErrorKind::NotFound && !everything && sequence < end =>
            {
                self.report.feeds.too_old += 1;
                self.subscriber.position = end;
                return Ok(());
            }
            (Err(error), begin) => {
                let message = format!("subscribing {begin:?} of {end} failed: {error}");
                return Err(Violation::new(message));
            }
        };
        let position = subscription.position();
        let is_right = match begin {
            Begin::Next => position == end,
            Begin::Oldest => position <= end && (!everything || position == 1),
            Begin::At(sequence) => position == sequence.max(1) && position <= end,
        };
        if !is_right {
            let message = format!("subscribing {begin:?} of {end} begins at {position}");
            return Err(Violation::new(message));
        }
        let is_at = matches!(begin, Begin::At(_));
        self.report.feeds.resumed += u64::from(is_resumed && is_at && position < end);
        self.subscriber.begin(subscription, interest);
        Ok(())
    }

    /// Mostly all changes; else those of a family, of a prefix, or of both.
    fn interest(&mut self) -> Interest {
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let key = self.settings.key_shape.key(self.draw.below(self.settings.key_count));
        let prefix = key[..self.draw.index(key.len() + 1)].into();
        match self.draw.below(8) {
            0 => Interest { family: Some(family), prefix: None },
            1 => Interest { family: None, prefix: Some(prefix) },
            2 => Interest { family: Some(family), prefix: Some(prefix) },
            _ => Interest::default(),
        }
    }

    /// Pulls and compares the next event. Returns whether there may be another one.
    fn pull(&mut self) -> Checked<bool> {
        let Some(subscription) = &mut self.subscriber.subscription else { return Ok(false) };
        let faults = self.database.fs.faults();
        let mut pulled = subscription.try_next();
        if pulled.is_err() && self.database.fs.faults() > faults {
            // A call failed meanwhile. The second pull must not skip a commit.
            pulled = subscription.try_next();
        }
        let position = Subscription::position(subscription);
        match pulled {
            Ok(Some(event)) => self.told(&event).map(|()| true),
            Ok(None) => {
                // The position is behind unwanted commits, too.
                self.subscriber.check_end(&self.model, self.settings.retained)?;
                self.subscriber.position = position;
                self.report.feeds.ends += 1;
                Ok(false)
            }
            Err(error) => {
                self.subscriber.subscription = None;
                let is_slow = matches!(self.settings.feed_use, FeedUse::Upto(..1_000_000));
                if error.kind() == ErrorKind::NotFound && is_slow {
                    self.note(format!("the feed was too slow: {error}"));
                    self.report.feeds.slow += 1;
                    return Ok(false);
                }
                if Excuse::Fault.kinds().contains(&error.kind()) && self.has_failed() {
                    return Ok(false);
                }
                Err(Violation::new(format!("the feed failed: {error}")))
            }
        }
    }

    fn told(&mut self, event: &Event) -> Checked<()> {
        let retained = self.settings.retained;
        let seen = self.subscriber.check_event(event, &mut self.model, retained)?;
        let counts = &mut self.report.feeds;
        match seen {
            Seen::Unlogged => counts.unlogged += 1,
            Seen::Commit | Seen::CommitAgain => {
                let is_filtered = self.subscriber.interest.family.is_some()
                    || self.subscriber.interest.prefix.is_some();
                counts.told += 1;
                counts.filtered += u64::from(is_filtered);
                counts.told_again += u64::from(seen == Seen::CommitAgain);
            }
        }
        Ok(())
    }
}
