//! Trainings with real XGBoost libraries: the model is the stock one's, byte by byte.

#[allow(clippy::duplicate_mod)]
mod common;
#[allow(clippy::duplicate_mod)]
mod hooked;
#[path = "../../communicator/tests/ranks/mod.rs"]
#[allow(clippy::duplicate_mod)]
mod ranks;

use hooked::in_own_process;
use hooked::job::{hooked as job, stock, Transport};
use hooked::library::{has_context, Collective, RELEASES};
use hooked::xgboost::Xgboost;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::ids::{Phase, Version};
use rejoin_xgboost::WireVariant;

const ROUNDS: u32 = 6;
const ROWS: usize = 900;
const COLUMNS: usize = 7;

type Parameters = [(&'static str, &'static str)];

const ALL: [(&str, &Parameters); 4] = [
    ("hist", &[("objective", "binary:logistic"), ("tree_method", "hist"), ("max_depth", "5"), ("eval_metric", "auc")]),
    ("approx", &[("objective", "reg:squarederror"), ("tree_method", "approx"), ("max_depth", "3")]),
    (
        "sampling",
        &[
            ("objective", "reg:absoluteerror"),
            ("tree_method", "hist"),
            ("subsample", "0.7"),
            ("colsample_bynode", "0.6"),
            ("seed", "11"),
        ],
    ),
    ("classes", &[("objective", "multi:softprob"), ("num_class", "3"), ("tree_method", "hist"), ("max_depth", "4")]),
];

fn data(rank: u32) -> (Vec<f32>, Vec<f32>) {
    let mut state = u64::from(rank) * 7919 + 1;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let features: Vec<f32> = (0..ROWS * COLUMNS).map(|_| random()).collect();
    let label = |row: &[f32]| (row[0] + row[1] * row[2] > 0.8) as u8 as f32;
    let labels = features.chunks(COLUMNS).map(label).collect();
    (features, labels)
}

/// Trains a model; `round` is called before each.
fn train(xgboost: &Xgboost, rank: u32, parameters: &Parameters, mut round: impl FnMut(u32)) -> Vec<u8> {
    let (features, labels) = data(rank);
    let matrix = xgboost.matrix(&features, ROWS, COLUMNS, &labels);
    let mut parameters = parameters.to_vec();
    parameters.extend([("nthread", "1"), ("seed_per_iteration", "true")]);
    let booster = xgboost.booster(&matrix, &parameters, None);
    for number in 0..ROUNDS {
        round(number);
        booster.update(&matrix, number).expect("a round");
    }
    booster.model()
}

#[test]
fn a_hooked_training_gives_the_stock_model() {
    for release in RELEASES {
        for (name, parameters) in ALL {
            in_own_process("a_hooked_training_gives_the_stock_model", &format!("{release} {name}"), || {
                let collective = Collective::load(release);
                let xgboost = &collective.xgboost;
                let variant = if has_context(release) { WireVariant::From33 } else { WireVariant::Until32 };
                for (world, together, transport) in
                    [(2, 2, Transport::Memory), (4, 2, Transport::Memory), (3, 1, Transport::Links)]
                {
                    let expected = stock(&collective, world, |rank| train(xgboost, rank, parameters, |_| {}));
                    assert!(expected.iter().all(|model| *model == expected[0]), "stock ranks agree");
                    let models = job(&collective, variant, world, together, transport, |member| {
                        let mut last = 0;
                        let model = train(xgboost, member.rank, parameters, |round| {
                            let mark = PhaseMark { round, checkpoint: round.into() };
                            let phase = Phase::Version(Version(round));
                            member.bridge.enter(member.member, phase, mark).expect("a boundary");
                            member.operations.enter(Version(round), round).expect("a boundary");
                            let calls = member.served().calls;
                            assert!(round == 0 || calls > last, "round {round} made no call through the hook");
                            last = calls;
                        });
                        println!("{release} {name}: {:?}", member.served());
                        model
                    });
                    for (rank, model) in models.iter().enumerate() {
                        assert!(
                            *model == expected[0],
                            "{release} {name} {transport:?}: rank {rank} of {world} has another model"
                        );
                    }
                }
            });
        }
    }
}
