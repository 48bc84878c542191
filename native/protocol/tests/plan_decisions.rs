//! The pure decision: where newcomers start, and why.

use rejoin_protocol::error::Code;
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::ids::{AgentId, Checkpoint, Lineage, Position, Rank, Version};
use rejoin_protocol::plan::{decide, Chain, Decision, Member, Situation};
use rejoin_protocol::words::list;

fn held(agent: u64, lineage: u32, version: u32) -> (AgentId, Checkpoint) {
    let checkpoint = Checkpoint {
        lineage: Lineage(lineage),
        version: Version(version),
        owner: None,
        has_own: false,
        round: version,
        length: 5,
        digest: u128::from(lineage) * 100 + u128::from(version),
        complete: false,
    };
    (AgentId(agent), checkpoint)
}

fn living(version: u32, oldest: u32) -> Member {
    Member::Living { version: Version(version), oldest: Version(oldest) }
}

fn local(lineage: u32, version: u32) -> Position {
    Position { lineage: Lineage(lineage), version: Version(version) }
}

struct Table {
    members: Vec<Member>,
    chain: Chain,
    planned_before: bool,
    highest: u32,
    held: Vec<(AgentId, Checkpoint)>,
    locals: Vec<Option<Vec<Position>>>,
    former: FormerWorlds,
}

impl Table {
    fn of(members: Vec<Member>, highest: u32, held: Vec<(AgentId, Checkpoint)>) -> Self {
        let locals = vec![None; members.len()];
        Table {
            members,
            chain: Chain::default(),
            planned_before: true,
            highest,
            held,
            locals,
            former: FormerWorlds::default(),
        }
    }

    fn decide(&self) -> Decision {
        decide(&Situation {
            members: &self.members,
            chain: &self.chain,
            planned_before: self.planned_before,
            highest: Version(self.highest),
            held: &self.held,
            locals: &self.locals,
            former: &self.former,
            own_may_be_lost: false,
        })
    }

    /// Version, holders and whether a lineage begins.
    fn start(&self) -> (u32, Vec<u64>, bool) {
        match self.decide() {
            Decision::Start { version, holders, branch, checkpoint, .. } => {
                assert_eq!(checkpoint.is_some(), version.0 > 0);
                (version.0, holders.into_iter().map(|agent| agent.0).collect(), branch)
            }
            other => panic!("a start was expected, not {other:?}"),
        }
    }
}

use Member::{Fresh, Vacant};

#[test]
fn the_first_time_all_start_at_the_beginning() {
    let mut table = Table::of(vec![Fresh, Fresh], 0, vec![]);
    table.planned_before = false;
    assert_eq!(table.start(), (0, vec![], false));
}

#[test]
fn nobody_fresh_is_nothing_to_decide() {
    let table = Table::of(vec![living(3, 2), Vacant], 3, vec![held(1, 0, 3)]);
    assert!(matches!(table.decide(), Decision::Wait { .. }));
}

#[test]
fn all_that_start_together_wait_for_each_other_and_it_says_for_whom() {
    let table = Table::of(vec![Fresh, Vacant, Fresh, Vacant], 0, vec![]);
    let Decision::Wait { reason } = table.decide() else { panic!() };
    assert!(reason.ends_with("1 and 3"), "{reason}");
}

#[test]
fn newcomers_start_at_the_lowest_living_position_without_waiting_for_other_vacant_ranks() {
    let table = Table::of(vec![living(5, 4), living(4, 3), Fresh, Vacant], 5, vec![held(1, 0, 4), held(2, 0, 5)]);
    assert_eq!(table.start(), (4, vec![1], false));
}

#[test]
fn a_standing_older_than_what_another_one_proves_does_not_count() {
    // Rank 1 reported 3, and has entered 4 since: otherwise rank 0 could not have dropped the logs below 4.
    let table = Table::of(vec![living(5, 4), living(3, 2), Fresh], 5, vec![held(1, 0, 4), held(1, 0, 3)]);
    assert_eq!(table.start(), (4, vec![1], false));
}

#[test]
fn version_0_needs_no_holder() {
    let table = Table::of(vec![living(0, 0), living(1, 0), Fresh], 1, vec![]);
    assert_eq!(table.start(), (0, vec![], false));
}

#[test]
fn a_rank_whose_own_state_is_lost_starts_one_version_earlier_if_the_logs_allow_it() {
    let mut table = Table::of(vec![living(5, 4), Fresh], 5, vec![held(1, 0, 5), held(1, 0, 4)]);
    table.locals[1] = Some(vec![local(0, 4)]);
    let Decision::Start { version, reason, .. } = table.decide() else { panic!() };
    assert_eq!(version, Version(4));
    assert!(reason.contains("own state of rank 1 as of version 5 is lost"), "{reason}");
}

#[test]
fn without_logs_for_an_earlier_start_everybody_goes_back() {
    let mut table = Table::of(vec![living(5, 5), Fresh], 5, vec![held(1, 0, 5), held(1, 0, 4)]);
    table.locals = vec![Some(vec![local(0, 4), local(0, 5)]), Some(vec![local(0, 4)])];
    let Decision::RollBack { reason } = table.decide() else { panic!() };
    assert!(reason.contains("version 5"), "{reason}");
}

#[test]
fn a_checkpoint_that_nobody_holds_sends_everybody_back_to_an_older_one() {
    let table = Table::of(vec![living(5, 5), Fresh], 5, vec![held(1, 0, 3)]);
    assert!(matches!(table.decide(), Decision::RollBack { .. }));
}

#[test]
fn with_nothing_to_go_back_to_the_job_is_over_and_it_says_so() {
    let table = Table::of(vec![living(5, 5), Fresh], 5, vec![]);
    let Decision::Fail(error) = table.decide() else { panic!() };
    assert_eq!(error.code, Code::Unrecoverable);
    assert!(error.message.contains("rank 1") && error.message.contains("version 5"), "{error}");
}

#[test]
fn when_nobody_lives_the_newest_that_is_held_begins_a_new_lineage() {
    let table = Table::of(vec![Fresh, Fresh], 7, vec![held(1, 0, 5), held(2, 0, 6), held(3, 0, 6)]);
    assert_eq!(table.start(), (6, vec![2, 3], true));
}

#[test]
fn versions_of_a_broken_off_branch_are_no_candidates() {
    let mut table = Table::of(vec![Fresh], 6, vec![held(1, 0, 9), held(1, 0, 5), held(1, 1, 6)]);
    table.chain.branch(Version(5)); // lineage 1 left lineage 0 at version 5
    assert_eq!(table.start(), (6, vec![1], true));
    table.held.retain(|(_, held)| held.lineage == Lineage(0));
    assert_eq!(table.start(), (5, vec![1], true));
}

#[test]
fn a_version_at_which_a_lineage_begins_keeps_its_name() {
    let mut chain = Chain::default();
    chain.branch(Version(5));
    chain.branch(Version(3));
    let names: Vec<(u32, u32)> =
        [2, 3, 4, 5, 6].map(|v| chain.origin(Version(v))).map(|at| (at.lineage.0, at.version.0)).into();
    assert_eq!(names, [(0, 2), (0, 3), (2, 4), (2, 5), (2, 6)]);
    assert_eq!(chain.lineage(), Lineage(2));
}

#[test]
fn when_nobody_lives_and_nothing_is_held_the_beginning_counts_only_before_the_first_checkpoint() {
    let table = Table::of(vec![Fresh, Fresh], 0, vec![]);
    assert_eq!(table.start(), (0, vec![], true));
    let table = Table::of(vec![Fresh, Fresh], 1, vec![]);
    let Decision::Fail(error) = table.decide() else { panic!() };
    assert_eq!(error.code, Code::Unrecoverable);
}

#[test]
fn different_bytes_under_one_name_are_a_mismatch_that_names_both_agents() {
    let (other, mut wrong) = held(0xb, 0, 4);
    wrong.digest += 1;
    let table = Table::of(vec![living(4, 3), Fresh], 4, vec![held(0xa, 0, 4), (other, wrong)]);
    let Decision::Fail(error) = table.decide() else { panic!() };
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("000a") && error.message.contains("000b"), "{error}");
}

#[test]
fn ranks_are_listed_as_one_says_them() {
    let say = |ranks: &[u32]| list(&ranks.iter().copied().map(Rank).collect::<Vec<_>>());
    assert_eq!([say(&[]), say(&[4]), say(&[4, 5]), say(&[4, 5, 6])], ["", "4", "4 and 5", "4, 5 and 6"]);
}

fn own(agent: u64, version: u32, rank: u32) -> (AgentId, Checkpoint) {
    let (agent, global) = held(agent, 0, version);
    (agent, Checkpoint { owner: Some(Rank(rank)), digest: u128::from(rank) + 7, ..global })
}

fn with_own(agent: u64, version: u32) -> (AgentId, Checkpoint) {
    let (agent, global) = held(agent, 0, version);
    (agent, Checkpoint { has_own: true, ..global })
}

#[test]
fn a_rank_is_started_where_its_own_model_is_held_even_if_others_are_further() {
    let members = || vec![living(5, 4), Member::Fresh];
    let table = |owns: Vec<_>| Table::of(members(), 5, [vec![with_own(1, 4), with_own(1, 5)], owns].concat());
    assert_eq!(table(vec![own(1, 4, 1), own(1, 5, 1)]).start().0, 5);
    assert_eq!(table(vec![own(1, 4, 1), own(1, 5, 0)]).start().0, 4, "another's own model doesn't help");
    let Decision::Fail(error) = table(vec![own(1, 5, 0)]).decide() else { panic!("no rank has it") };
    assert_eq!(error.code, Code::Unrecoverable);
    let said = ["the own model of rank 1 as of version 5 is lost", "own_copies", "durable checkpoints"];
    assert!(said.iter().all(|text| error.message.contains(text)), "{error}");
}

#[test]
fn when_nobody_is_left_a_version_counts_only_if_the_own_models_of_all_are_held() {
    let members = vec![Member::Fresh, Member::Fresh];
    let held = vec![with_own(1, 4), own(1, 4, 0), own(2, 4, 1), with_own(1, 6), own(1, 6, 0)];
    assert_eq!(Table::of(members, 6, held).start(), (4, vec![1], true));
}

#[test]
fn a_lazy_checkpoint_is_the_same_as_what_it_becomes_and_what_is_made_is_preferred() {
    let lazy = |agent| {
        let (agent, made) = held(agent, 0, 3);
        (agent, Checkpoint { length: rejoin_protocol::ids::UNMADE, digest: 0, ..made })
    };
    let table = Table::of(vec![living(3, 3), Member::Fresh], 3, vec![lazy(1), held(2, 0, 3), lazy(3)]);
    assert_eq!(table.start(), (3, vec![1, 2, 3], false));
    let Decision::Start { checkpoint, .. } = table.decide() else { panic!("they can start") };
    assert_eq!(checkpoint, Some(held(2, 0, 3).1));
}

#[test]
fn a_version_of_a_world_that_is_forgotten_gives_no_rank_an_own_model() {
    let owner = |owner: u32| {
        let (agent, common) = held(owner.into(), 0, 4);
        (agent, Checkpoint { owner: Some(Rank(owner)), digest: u128::from(owner), ..common })
    };
    let common = held(0, 0, 4);
    let common = (common.0, Checkpoint { has_own: true, ..common.1 });
    let mut table = Table::of(vec![Fresh, Fresh], 4, vec![common, owner(0), owner(1)]);
    assert_eq!(table.start().0, 4);
    table.former.forget_before(Lineage(1));
    let Decision::Fail(error) = table.decide() else { panic!("it is not known whose they are") };
    assert_eq!(error.code, Code::Unrecoverable);
}
