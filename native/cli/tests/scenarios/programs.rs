//! The examples, killed at moments of their life, print the same digest.

use crate::digest;
use crate::harness::run;
use crate::rust_example::rust_example;

fn same_digest_whoever_dies(name: &str, rules: &[&[&str]]) {
    let program = rust_example(name);
    let undisturbed = digest(&run(&["-n", "4", "--", &program]).ended(0));
    for kills in rules {
        let mut arguments = vec!["-n", "4", "--restart"];
        for rule in *kills {
            arguments.extend(["--kill", rule]);
        }
        arguments.extend(["--", &program]);
        let ran = run(&arguments).ended(0);
        assert_eq!(digest(&ran), undisturbed, "{kills:?}");
    }
}

#[test]
fn k_means_prints_the_same_digest_whoever_dies() {
    same_digest_whoever_dies(
        "kmeans",
        &[
            &["rank=1,version=boot,seqno=0"],
            &["rank=0,version=0,seqno=0,at=completed"],
            &["rank=2,version=12,seqno=0", "rank=2,incarnation=1,version=20,seqno=0", "rank=3,version=20,seqno=0"],
            &["rank=0,at=finalize"],
        ],
    );
}

#[test]
fn logistic_regression_prints_the_same_digest_whoever_dies() {
    same_digest_whoever_dies(
        "logistic",
        &[
            &["rank=3,version=0,seqno=0,at=completed"],
            // Until rank 0 is declared lost, rank 1 has time to come to the call that it then begins again.
            &["rank=0,version=9,seqno=0,do=stop", "rank=1,version=9,seqno=0,at=again"],
            &["rank=2,version=17,at=checkpoint", "rank=1,at=finalize"],
        ],
    );
}
