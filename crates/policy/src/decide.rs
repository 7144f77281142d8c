//! Requested × ceiling × capability: one decision for each field.

use procession_core::{Containment, Field, Owner, RequestedLimits, SessionId, Value, field::Kind};

use crate::{
    capability::{Capabilities, Capability, Channel, Level},
    decision::{Decision, FieldDecision, RefusalReason, SetBy, Status},
    freedom::{bounded, check_value, is_free_without, put_right, same},
    host::{Ceilings, HostPolicy, OnExcess},
};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

/// The smallest output budget, in bytes; less counts as this.
pub const LEAST_OUTPUT_BUDGET_BYTES: u64 = 128;
/// The most rows, and the most columns, of a terminal; more counts as this.
pub const MAX_TERMINAL_SIDE: u16 = 4096;
/// The longest text that a decision holds, in bytes, inclusive; a longer request is refused.
pub const MAX_TEXT_BYTES: usize = 4096;
/// The longest list that a decision holds, all texts together, in bytes, inclusive; a longer request is refused.
pub const MAX_LIST_BYTES: usize = 64 << 10;
/// The longest note, in bytes, inclusive; a longer one is cut.
const MAX_NOTE_BYTES: usize = 1024;
/// What is kept on record of each text of a request that is too long.
const CUT_CHARACTERS: usize = 64;
/// What is kept on record of a list that is too long.
const CUT_ENTRIES: usize = 64;

/// What is to be decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRequest {
    /// The session, which does not run yet.
    pub session: SessionId,
    /// To whom it will belong.
    pub owner: Owner,
    /// What is requested: [`procession_core::SessionSpec::requested`].
    pub limits: RequestedLimits,
    /// By what means the session's tree will be held.
    pub containment: Containment,
    /// What the principal may have at the most.
    pub principal_ceilings: Ceilings,
    /// What the owner may have at the most.
    pub owner_ceilings: Ceilings,
}

impl PolicyRequest {
    /// A request of an owner who has no ceilings of its own.
    #[must_use]
    pub fn new(session: SessionId, owner: Owner, limits: RequestedLimits, containment: Containment) -> Self {
        Self {
            session,
            owner,
            limits,
            containment,
            principal_ceilings: Ceilings::default(),
            owner_ceilings: Ceilings::default(),
        }
    }
}

/// Decides every field.
///
/// | requested | what holds | status |
/// | --- | --- | --- |
/// | nothing | the host's default, else what is inherited, else the table's default, under all ceilings | `defaulted`; `clamped` where a ceiling of principal, owner or machine took from it |
/// | what the machine enforces, within all ceilings | as requested | `as_requested`, at level `advisory`: `advisory` |
/// | more than a ceiling | by the host's rule: the tightest ceiling, the request, nothing | `clamped`, `advisory`, `refused` |
/// | what nothing enforces | by the host's rule: nothing, or what is inherited | `refused`, `unsupported` |
/// | what does not fit the field, or a record | nothing | `refused` |
///
/// A default or a ceiling that the host sets and the machine cannot enforce is treated as if it were requested: a
/// missing back end is a refusal, unless the host says otherwise. What is inherited and is requested is granted at any
/// level, since it holds anyway. Machine and use (an output budget of 128 bytes, a terminal of 1 to 4096 rows and
/// columns, processor time in whole seconds) clamp whatever the rule for ceilings says.
///
/// The decision is refused as a whole when one field is.
#[must_use]
pub fn decide(request: &PolicyRequest, host: &HostPolicy, capabilities: &Capabilities) -> Decision {
    let fields = Field::ALL
        .iter()
        .map(|field| {
            let case = Case::new(*field, request, host, capabilities.get(*field));
            match request.limits.get(field) {
                Some(requested) => case.decide_requested(requested),
                None => case.decide_default(),
            }
        })
        .collect();
    let Owner { principal, agent, .. } = &request.owner;
    Decision::new(
        request.session,
        principal.clone(),
        agent.clone(),
        request.containment,
        fields,
    )
}

/// Whether a record can hold the value.
pub(crate) fn text_fits(value: &Value) -> bool {
    match value {
        Value::Text(text) => text.len() <= MAX_TEXT_BYTES,
        Value::List(entries) => {
            entries
                .iter()
                .map(|entry| entry.len().saturating_add(1))
                .fold(0, usize::saturating_add)
                <= MAX_LIST_BYTES
        }
        Value::Number(_) | Value::Integer(_) | Value::Flag(_) => true,
    }
}

/// A ceiling and whose it is.
#[derive(Debug, Clone)]
struct Bound {
    whose: SetBy,
    ceiling: Value,
    /// Whether it was set, not taken from the table: then it also bounds who asks for nothing.
    is_set: bool,
}

/// What the ceilings made of a value.
#[derive(Debug)]
struct Bounded {
    value: Value,
    /// Whose ceiling took from it last, which is the tightest; none when it was within all of them.
    taken_by: Option<Bound>,
}

/// One field's part of the question.
#[derive(Debug)]
struct Case<'a> {
    field: Field,
    host: &'a HostPolicy,
    capability: Option<&'a Capability>,
    level: Level,
    /// From the outermost to the innermost, the machine last.
    bounds: Vec<Bound>,
    notes: Vec<String>,
}

impl<'a> Case<'a> {
    fn new(
        field: Field,
        request: &PolicyRequest,
        host: &'a HostPolicy,
        capability: Option<&'a Capability>,
    ) -> Self {
        let nested = |whose, ceilings: &Ceilings| {
            ceilings.get(field).cloned().map(|ceiling| Bound {
                whose,
                ceiling,
                is_set: true,
            })
        };
        let is_set = host.configured_ceiling(field).is_some();
        let bounds = [
            host.ceiling_of(field).map(|ceiling| Bound {
                whose: SetBy::Host,
                ceiling,
                is_set,
            }),
            nested(SetBy::Principal, &request.principal_ceilings),
            nested(SetBy::Owner, &request.owner_ceilings),
            capability
                .and_then(|capability| capability.most.clone())
                .filter(|_| field != Field::CwdRoot)
                .map(|ceiling| Bound {
                    whose: SetBy::Platform,
                    ceiling,
                    is_set: false,
                }),
        ];
        let note = capability.and_then(|capability| capability.note.clone());
        Self {
            field,
            host,
            capability,
            level: capability.map_or(Level::Unsupported, |capability| capability.level),
            bounds: bounds.into_iter().flatten().collect(),
            notes: note.into_iter().collect(),
        }
    }

    fn decide_requested(mut self, requested: &Value) -> FieldDecision {
        if !text_fits(requested) {
            self.note("the record holds the beginning of the request");
            let beginning = cut(requested);
            return self.refused(Some(&beginning), SetBy::Platform, RefusalReason::TooLong, None);
        }
        if check_value(self.field, requested).is_err() {
            return self.refused(Some(requested), SetBy::Platform, RefusalReason::Unfit, None);
        }
        let wanted = self.resolve(requested);
        if !self.can_enforce(&wanted) {
            let holds_anyway = self
                .inherited()
                .is_some_and(|inherited| same(&inherited, &wanted));
            let is_within = self.bound(wanted.clone(), |_| true).taken_by.is_none();
            if holds_anyway && is_within {
                return self.made(
                    Some(requested),
                    Some(wanted),
                    Status::AsRequested,
                    SetBy::Caller,
                    None,
                );
            }
            return self.unenforceable(Some(requested), SetBy::Platform);
        }
        self.decide_enforceable(requested, wanted)
    }

    fn decide_enforceable(mut self, requested: &Value, wanted: Value) -> FieldDecision {
        let right = self.put_right(&wanted);
        let was_put_right = right.is_some();
        let mut found = self.bound(right.unwrap_or(wanted), |_| true);
        let mut is_advised = false;
        if let Some(bound) = found.taken_by.clone() {
            match self.host.rule_of(self.field) {
                OnExcess::Clamp => {}
                OnExcess::Refuse => {
                    let reason = RefusalReason::AboveCeiling;
                    return self.refused(Some(requested), bound.whose, reason, Some(bound.ceiling));
                }
                OnExcess::Advise => {
                    // What the machine cannot give is not given, whatever is advised.
                    let wanted = self.put_right_or(self.resolve(requested));
                    found = self.bound(wanted, |bound| bound.whose == SetBy::Platform);
                    is_advised = bound.whose != SetBy::Platform;
                }
            }
        }
        if is_advised {
            self.note("the ceiling is advice here");
        }
        let ceiling = found.taken_by.as_ref().map(|bound| bound.ceiling.clone());
        let taken_by = found.taken_by.map(|bound| bound.whose);
        if taken_by.is_some() && !self.can_enforce(&found.value) {
            let whose = taken_by.unwrap_or(SetBy::Platform);
            return self.refused(Some(requested), whose, RefusalReason::Unenforceable, ceiling);
        }
        let (status, set_by) = match taken_by {
            Some(whose) => (Status::Clamped, whose),
            None if was_put_right => (Status::Clamped, SetBy::Platform),
            None if is_advised || self.level == Level::Advisory => (Status::Advisory, SetBy::Caller),
            None => (Status::AsRequested, SetBy::Caller),
        };
        self.made(Some(requested), Some(found.value), status, set_by, ceiling)
    }

    fn decide_default(self) -> FieldDecision {
        let configured = self.host.configured_default(self.field);
        let (candidate, source) = match (&configured, self.inherited(), self.field.spec().default.value()) {
            (Some(default), _, _) => (Some(self.resolve(default)), SetBy::Host),
            (None, Some(inherited), _) => (Some(inherited), SetBy::Platform),
            (None, None, default) => (default, SetBy::Host),
        };
        let is_enforced = match &candidate {
            Some(value) if source == SetBy::Platform => self.can_bound(value),
            Some(value) => self.can_enforce(value),
            None => self.level != Level::Unsupported,
        };
        if !is_enforced {
            return self.decide_unenforced_default(configured);
        }
        let Some(candidate) = candidate else {
            return self.decide_without_default();
        };
        let value = self.put_right_or(candidate);
        let found = self.bound(value, |_| true);
        let Some(bound) = found.taken_by else {
            return self.made(None, Some(found.value), Status::Defaulted, source, None);
        };
        if !self.can_enforce(&found.value) {
            return self.unenforceable(None, bound.whose);
        }
        let status = status_of_default_bounded_by(bound.whose);
        self.made(None, Some(found.value), status, bound.whose, Some(bound.ceiling))
    }

    /// Nothing is requested, there is no default, and a ceiling could be enforced.
    fn decide_without_default(self) -> FieldDecision {
        // Nothing is less than any bound, or what bounds is a count of a list that nobody gave.
        let tightest = self
            .tightest(|bound| bound.is_set)
            .filter(|_| is_free_without(self.field));
        let Some(bound) = tightest.filter(|bound| check_value(self.field, &bound.ceiling).is_ok()) else {
            return self.made(None, None, Status::Defaulted, SetBy::Host, None);
        };
        let found = self.bound(bound.ceiling.clone(), |_| true);
        let bound = found.taken_by.unwrap_or(bound);
        if !self.can_enforce(&found.value) {
            return self.unenforceable(None, bound.whose);
        }
        let status = status_of_default_bounded_by(bound.whose);
        self.made(None, Some(found.value), status, bound.whose, Some(bound.ceiling))
    }

    /// Nothing is requested and nothing enforces the default: what is inherited holds, if that will do.
    fn decide_unenforced_default(self, configured: Option<Value>) -> FieldDecision {
        let inherited = self.inherited();
        let held = |wanted: &Value| {
            inherited
                .as_ref()
                .is_some_and(|inherited| same(inherited, wanted))
        };
        if configured.is_some_and(|default| !held(&self.resolve(&default))) {
            return self.unenforceable(None, SetBy::Host);
        }
        let beyond = match &inherited {
            Some(inherited) => self.bound(inherited.clone(), |bound| bound.is_set).taken_by,
            None => self
                .tightest(|bound| bound.is_set)
                .filter(|_| is_free_without(self.field)),
        };
        match beyond {
            Some(bound) => self.unenforceable(None, bound.whose),
            None => self.made(None, inherited, Status::Defaulted, SetBy::Platform, None),
        }
    }

    /// Nothing enforces what is wanted: refused, unless the host says otherwise.
    fn unenforceable(self, requested: Option<&Value>, whose: SetBy) -> FieldDecision {
        match self.host.configured_rule(self.field) {
            None | Some(OnExcess::Refuse) => {
                self.refused(requested, whose, RefusalReason::Unenforceable, None)
            }
            Some(OnExcess::Clamp | OnExcess::Advise) => {
                let inherited = self.inherited();
                self.made(requested, inherited, Status::Unsupported, SetBy::Platform, None)
            }
        }
    }

    fn refused(
        self,
        requested: Option<&Value>,
        set_by: SetBy,
        reason: RefusalReason,
        ceiling: Option<Value>,
    ) -> FieldDecision {
        let decision = self.made(requested, None, Status::Refused, set_by, ceiling);
        FieldDecision {
            refusal: Some(reason),
            ..decision
        }
    }

    fn made(
        self,
        requested: Option<&Value>,
        effective: Option<Value>,
        status: Status,
        set_by: SetBy,
        ceiling: Option<Value>,
    ) -> FieldDecision {
        let ceiling = ceiling.or_else(|| self.tightest(|_| true).map(|bound| bound.ceiling));
        FieldDecision {
            field: self.field,
            requested: requested.cloned(),
            ceiling,
            effective,
            status,
            set_by,
            level: self.level,
            channel: self
                .capability
                .map_or(Channel::None, |capability| capability.channel),
            note: joined(&self.notes),
            refusal: None,
        }
    }

    /// What the ceilings of these bounds make of the value, one after the other.
    fn bound(&self, value: Value, counts: impl Fn(&Bound) -> bool) -> Bounded {
        let mut found = Bounded {
            value,
            taken_by: None,
        };
        for bound in self.bounds.iter().filter(|bound| counts(bound)) {
            if let Some(value) = bounded(self.field, &found.value, &bound.ceiling) {
                found = Bounded {
                    value,
                    taken_by: Some(bound.clone()),
                };
            }
        }
        found
    }

    /// The tightest of these bounds: each is bounded by those further in.
    fn tightest(&self, counts: impl Fn(&Bound) -> bool) -> Option<Bound> {
        let mut bounds = self.bounds.iter().filter(|bound| counts(bound));
        let first = bounds.next()?.clone();
        Some(bounds.fold(first, |tightest, bound| {
            match bounded(self.field, &tightest.ceiling, &bound.ceiling) {
                Some(ceiling) => Bound {
                    ceiling,
                    ..bound.clone()
                },
                None => tightest,
            }
        }))
    }

    fn inherited(&self) -> Option<Value> {
        self.capability
            .and_then(|capability| capability.inherited.clone())
    }

    /// What a word stands for: `auto` is the means in force.
    fn resolve(&self, value: &Value) -> Value {
        match self.inherited() {
            Some(inherited) if self.field == Field::Containment && value.as_text() == Some("auto") => {
                inherited
            }
            _ => value.clone(),
        }
    }

    /// Whether the value can be had here.
    fn can_enforce(&self, value: &Value) -> bool {
        self.level != Level::Unsupported && self.has_word(value)
    }

    /// Whether what is inherited can be bounded; it need not be among the words that can be asked for.
    fn can_bound(&self, inherited: &Value) -> bool {
        self.level != Level::Unsupported && (self.has_word(inherited) || self.is_within_all(inherited))
    }

    fn is_within_all(&self, value: &Value) -> bool {
        self.bound(value.clone(), |_| true).taken_by.is_none()
    }

    fn has_word(&self, value: &Value) -> bool {
        let words = self
            .capability
            .and_then(|capability| capability.supported.as_ref());
        match (words, self.field.spec().kind) {
            (Some(words), Kind::Word(_) | Kind::Flag) => words.contains(&value.to_string()),
            _ => true,
        }
    }

    fn put_right(&mut self, value: &Value) -> Option<Value> {
        let right = put_right(self.field, value)?;
        self.note(match self.field {
            Field::OutputBudget => "less than 128 counts as 128",
            Field::CpuTime => "a part of a second counts as a whole one",
            _ => "a terminal has 1 to 4096 rows and columns",
        });
        Some(right)
    }

    fn put_right_or(&self, value: Value) -> Value {
        put_right(self.field, &value).unwrap_or(value)
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

/// A host's ceiling is part of its default; a principal's, an owner's or the machine's takes from it.
const fn status_of_default_bounded_by(whose: SetBy) -> Status {
    match whose {
        SetBy::Host | SetBy::Caller => Status::Defaulted,
        SetBy::Principal | SetBy::Owner | SetBy::Platform => Status::Clamped,
    }
}

fn joined(notes: &[String]) -> Option<String> {
    if notes.is_empty() {
        return None;
    }
    let mut note = notes.join("; ");
    let mut end = note.len().min(MAX_NOTE_BYTES);
    while !note.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    note.truncate(end);
    Some(note)
}

/// The beginning of a value that a record cannot hold whole.
fn cut(value: &Value) -> Value {
    let beginning = |text: &String| text.chars().take(CUT_CHARACTERS).collect();
    match value {
        Value::Text(text) => Value::Text(beginning(text)),
        Value::List(entries) => Value::List(entries.iter().take(CUT_ENTRIES).map(beginning).collect()),
        Value::Number(_) | Value::Integer(_) | Value::Flag(_) => value.clone(),
    }
}
