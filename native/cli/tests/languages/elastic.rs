//! A world that shrinks, as programs in other languages see it.

use crate::compiled::built;
use crate::guide::{blocks_of, python_into};
use crate::harness::{run, Ran};
use crate::{libraries, root};

/// Four ranks of which one is killed for good: the other three end as a world of three, with the mean of all rows.
fn shrinks(command: &[&str]) -> Ran {
    let options = ["-n", "4", "--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=1,version=10,seqno=0", "--"];
    let ran = run(&[&options[..], command].concat()).ended(0);
    ran.says("the world of 4 ranks goes on as one of 3");
    let ends = ran.out.lines().filter(|line| line.contains("the mean is 499.500000, of 3 ranks")).count();
    assert_eq!(ends, 3, "{}", ran.out);
    ran
}

#[test]
fn the_documents_program_in_python_goes_on_in_a_smaller_world() {
    let folder = tempfile::tempdir().expect("a folder");
    python_into(folder.path());
    let blocks = blocks_of("docs/elastic.md");
    let (_, text) = blocks.iter().find(|(kind, _)| kind == "python file=elastic.py").expect("the document has it");
    let program = folder.path().join("elastic.py");
    std::fs::write(&program, text).expect("room for a program");
    let (python, program) = (folder.path().join("python3").display().to_string(), program.display().to_string());
    let library = format!("REJOIN_LIBRARY={}", libraries().join("librejoin.so").display());
    let path = format!("PYTHONPATH={}", root().join("python").display());
    shrinks(&["env", &library, &path, &python, &program]);
}

#[test]
fn a_program_in_c_has_its_buffer_as_before_and_joins_again_as_another_rank() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("elastic.c");
    std::fs::write(&source, C).expect("room for a program");
    let (_folder, program) = built("cc", "-std=c99", &source.display().to_string(), "native/capi/include");
    let ran = shrinks(&[&program.display().to_string()]);
    assert!(ran.out.contains("rank 2 of 3 was 3, local rank 2 of 3"), "{}", ran.out);
    let kept = ran.out.matches("the buffer is as before, and other calls are refused\n").count();
    assert_eq!(kept, 3, "{}", ran.out);
}

const C: &str = r#"
#include <rejoin.h>
#include <stdio.h>
#include <string.h>

static rejoin_status train(rejoin_communicator *ranks) {
    const void *model;
    size_t bytes;
    uint32_t version;
    double mean = 0;
    rejoin_status status = rejoin_load(ranks, &version, &model, &bytes);
    if (status != REJOIN_OK) return status;
    if (version > 0) memcpy(&mean, model, sizeof mean);
    for (; version < 40; version++) {
        double sums[2] = {0, 0};
        for (uint32_t row = rejoin_rank(ranks); row < 1000; row += rejoin_world(ranks)) {
            sums[0] += mean - row;
            sums[1] += 1;
        }
        double before[2] = {sums[0], sums[1]};
        status = rejoin_allreduce(ranks, sums, 2, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, NULL);
        if (status == REJOIN_RESIZED && memcmp(sums, before, sizeof sums) == 0) {
            rejoin_status next = rejoin_allreduce(ranks, sums, 2, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, NULL);
            rejoin_status end = rejoin_checkpoint(ranks, &mean, sizeof mean, REJOIN_HERE);
            int refused = next == REJOIN_BAD_STATE && end == REJOIN_BAD_STATE;
            printf("the buffer is as before%s\n", refused ? ", and other calls are refused" : "");
        }
        if (status != REJOIN_OK) return status;
        mean -= 0.5 * sums[0] / sums[1];
        status = rejoin_checkpoint(ranks, &mean, sizeof mean, REJOIN_HERE);
        if (status != REJOIN_OK) return status;
    }
    status = rejoin_finish(ranks, &mean, sizeof mean);
    if (status == REJOIN_OK) printf("the mean is %.6f, of %u ranks\n", mean, (unsigned)rejoin_world(ranks));
    return status;
}

int main(void) {
    rejoin_communicator *ranks;
    rejoin_status status = rejoin_join_launched("elastic mean 1", NULL, &ranks);
    while (status == REJOIN_OK) {
        uint32_t before = rejoin_rank(ranks);
        status = train(ranks);
        if (status == REJOIN_OK) break;
        if (status != REJOIN_RESIZED && status != REJOIN_ROLLED_BACK) break;
        status = rejoin_join_again(ranks);
        rejoin_placement here = {0, 0, 0, 0};
        if (status == REJOIN_OK) status = rejoin_place(ranks, &here);
        printf("rank %u of %u was %u, ", (unsigned)rejoin_rank(ranks), (unsigned)rejoin_world(ranks), (unsigned)before);
        printf("local rank %u of %u\n", (unsigned)here.local_rank, (unsigned)here.local_size);
        fflush(stdout);
    }
    if (status != REJOIN_OK && status != REJOIN_OVER) fprintf(stderr, "%s\n", rejoin_message(ranks));
    rejoin_close(ranks);
    return status == REJOIN_OK || status == REJOIN_OVER ? 0 : 1;
}
"#;
