/*
 * Rejoin: collectives that survive. When a rank dies, that rank alone is started again: it gets the
 * last checkpoint from a peer's memory and the results that it missed, and goes on. The others
 * never restart, and the result is the same, byte for byte.
 *
 *     rejoin_communicator *ranks;
 *     rejoin_status status = rejoin_join_launched("my program 1", NULL, &ranks);
 *     if (status == REJOIN_OVER) { rejoin_close(ranks); return 0; }             the job had ended before
 *     if (status != REJOIN_OK) { fprintf(stderr, "%s\n", rejoin_message(ranks)); return 1; }
 *     rejoin_load(ranks, &version, &model, &bytes);     version 0: begin; else go on from the model
 *     while (version++ < 25) {
 *         ... compute `sums` from this rank's part of the data ...
 *         rejoin_allreduce(ranks, sums, count, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, NULL);
 *         ... change the model ...
 *         rejoin_checkpoint(ranks, model, bytes, REJOIN_HERE);
 *     }
 *     rejoin_finish(ranks, model, bytes);
 *     rejoin_close(ranks);
 *
 * and then: rejoin run -n 4 --restart -- ./my-program
 *
 * Rules that hold for everything here
 *
 * - Every function that can fail returns a rejoin_status. The text that belongs to it (what was
 *   expected, what was seen, what to do) is given by rejoin_message() of the handle, until the next
 *   call with that handle.
 * - A call that fails leaves the caller's buffers as they were, but for what a prepare function has
 *   put into them. After a failure other than REJOIN_BAD_ARGUMENT the communicator refuses further
 *   calls with REJOIN_BAD_STATE: this process should end with a status other than 0, and the rank
 *   be started again. (After REJOIN_ROLLED_BACK and REJOIN_RESIZED it may also join again.)
 * - A handle belongs to one thread at a time; a second one that calls meanwhile gets
 *   REJOIN_BAD_STATE. Different handles, as many as there are ranks in this process, have nothing
 *   to do with each other. There is no global state but the log's level.
 * - A handle belongs to the process that made it. A child by fork() must neither use nor close it:
 *   it has the memory, not the threads, and what it sent would be taken for its parent's.
 * - The library never ends the process, installs no signal handlers, and prints nothing unless
 *   rejoin_log_level() or one of the variables REJOIN_LOG and REJOIN_CALLS (`rejoin run --log`,
 *   `--calls`) asks for it. A defect in it (a panic) becomes REJOIN_INTERNAL; the handle is of no
 *   more use then.
 * - Callbacks run in the caller's thread, inside the call that they were given to. They must
 *   return: no exception and no longjmp may leave them; and they must not use the handle.
 * - A struct with a `size` is begun with its _INIT. A program that was compiled with an older
 *   header gets the defaults of what its structs lack. One that was compiled with a newer header is
 *   served as long as what this library doesn't know is left at its default, which is 0 or NULL;
 *   otherwise it is REJOIN_BAD_ARGUMENT, by the struct's name.
 * - Sizes are in bytes where it says bytes, in elements where it says count. Elements are in the
 *   machine's byte order, and buffers need no alignment. A buffer of no bytes may be NULL. Text is
 *   UTF-8 and ends with a zero byte.
 * - Where all ranks are on one host their collectives go through shared memory;
 *   REJOIN_SHARED_MEMORY=0 in a process's environment sends them over links, for all ranks.
 */
#ifndef REJOIN_H
#define REJOIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- what calls return */

/* REJOIN_OK, REJOIN_OVER, or why something can't go on. The numbers never change. */
typedef int32_t rejoin_status;

enum {
    REJOIN_OK = 0,
    /* An argument or a setting is not usable. Nothing was done; the handle can be used further. */
    REJOIN_BAD_ARGUMENT = 1,
    /* A handle was used in a state that doesn't allow the call. */
    REJOIN_BAD_STATE = 2,
    /* This incarnation was declared lost or superseded; a newer one may be at work. */
    REJOIN_FENCED = 3,
    /* All go back to an older version: rejoin_join_again(), or end this process. Neither counts as a death. */
    REJOIN_ROLLED_BACK = 4,
    /* Ranks made different calls, or hold different bytes under one name. The job is over. */
    REJOIN_MISMATCH = 5,
    /* Ranks were missing until a deadline. */
    REJOIN_MEMBERS_MISSING = 6,
    /* More deaths than are retried, or no rank left that holds what is needed. */
    REJOIN_UNRECOVERABLE = 7,
    /* The tracker could not be reached until a deadline. */
    REJOIN_TRACKER_UNREACHABLE = 8,
    /* The user or the framework cancelled. */
    REJOIN_CANCELLED = 9,
    /* A socket, file or thread failed. */
    REJOIN_IO = 10,
    /* The memory and disk budget for logs is used up. */
    REJOIN_OUT_OF_SPACE = 11,
    /* Library, wire or terms of the two sides do not fit each other. */
    REJOIN_INCOMPATIBLE = 12,
    /* The program's own code (a callback, rejoin_abandon) failed in a way that will repeat. The job is over. */
    REJOIN_TRAINING_FAILED = 13,
    /* A wait reached its deadline. */
    REJOIN_TIMED_OUT = 14,
    /* A defect in Rejoin. */
    REJOIN_INTERNAL = 15,
    /* The stored input of a rank is lost, and making it anew gave other rows. The job is over. */
    REJOIN_INPUT_LOST = 16,
    /* The world has shrunk (rejoin run --min): rejoin_join_again(), and this rank is another one in it. */
    REJOIN_RESIZED = 17,
    /* No failure: the job had reached its end already when this rank came. There is nothing to do. */
    REJOIN_OVER = 64
};

/* The stable name, for instance "TIMED_OUT"; "UNKNOWN" for another number. Never NULL, never to be freed. */
const char *rejoin_status_name(rejoin_status status);

/* 1 if trying the same again would fail the same way: a launcher should not start the rank again. 0 otherwise. */
int32_t rejoin_status_will_repeat(rejoin_status status);

/* ---------------------------------------------------------------- what is combined, and how */

typedef int32_t rejoin_element;

enum {
    REJOIN_I8 = 0,
    REJOIN_I16 = 1,
    REJOIN_I32 = 2,
    REJOIN_I64 = 3,
    REJOIN_U8 = 4, /* and plain bytes */
    REJOIN_U16 = 5,
    REJOIN_U32 = 6,
    REJOIN_U64 = 7,
    REJOIN_F16 = 8,
    REJOIN_BF16 = 9,
    REJOIN_F32 = 10,
    REJOIN_F64 = 11
};

/* Bytes of one element; 0 for a number that stands for none. */
size_t rejoin_element_bytes(rejoin_element element);

typedef int32_t rejoin_reduction;

enum {
    REJOIN_SUM = 0, /* integers wrap around */
    REJOIN_PRODUCT = 1,
    REJOIN_MIN = 2, /* -0 before +0; a NaN among the inputs gives NaN */
    REJOIN_MAX = 3,
    REJOIN_AND = 4, /* integers only, as the next two */
    REJOIN_OR = 5,
    REJOIN_XOR = 6
};

/* In which order the ranks' inputs are combined, from left to right. It alone decides about the last bits of a sum. */
enum {
    REJOIN_RANK_ORDER = 0, /* 0, 1, 2, ... for every element */
    REJOIN_RING_ORDER = 1  /* chunk k begins with rank k, as XGBoost's */
};

/* Whether a collective is one of the time before the first checkpoint whose result is kept for the life of the job. */
enum {
    REJOIN_BOOT_NO = 0,
    REJOIN_BOOT_BY_SITE = 1, /* found again by its site, the call, and how often that site has made it */
    REJOIN_BOOT_NAMED = 2    /* found again by boot_name, which may be used once in each incarnation */
};

/*
 * Fills a buffer of so many bytes: the buffer (or input) that the call was given, where it is, and
 * all of it. It is called only when the bytes are needed: not when the result is a recorded one,
 * and by a broadcast at the root alone. 0: it is filled; anything else fails the call with
 * REJOIN_TRAINING_FAILED, which ends the job.
 */
typedef int32_t (*rejoin_prepare)(void *user, void *buffer, size_t bytes);

/* Options of one call. Begin with REJOIN_OPTIONS_INIT; NULL instead of options is the same. */
typedef struct rejoin_options {
    size_t size; /* sizeof(rejoin_options), so that later versions may add to the end */
    int32_t order;
    int32_t boot;
    const char *boot_name;
    /* fills the input: for allreduce and reduce_scatter, the custom ones too, broadcast and
       allgather; allgather_v, allreduce_object and barrier take none */
    rejoin_prepare prepare;
    void *prepare_user;
} rejoin_options;

#define REJOIN_OPTIONS_INIT {sizeof(rejoin_options), REJOIN_RANK_ORDER, REJOIN_BOOT_NO, NULL, NULL, NULL}

/* Where a call stands in the program, for errors that name calls, and for REJOIN_BOOT_BY_SITE. NULL is allowed, too. */
#define REJOIN_TEXT_OF(x) #x
#define REJOIN_TEXT(x) REJOIN_TEXT_OF(x)
#define REJOIN_HERE (__FILE__ ":" REJOIN_TEXT(__LINE__))

/* ---------------------------------------------------------------- taking part */

/*
 * One process's part in one job. Only needed where more than one rank lives in a process, or the
 * launcher is your own.
 */
typedef struct rejoin_process rejoin_process;

/* One rank of a job in one incarnation: its collectives and checkpoints. */
typedef struct rejoin_communicator rejoin_communicator;

/* How long things may take, in milliseconds; 0 is the default. NULL instead of limits: all defaults. */
typedef struct rejoin_limits {
    size_t size;            /* sizeof(rejoin_limits) */
    uint64_t join_millis;   /* until all ranks are there and the checkpoint is fetched: 5 minutes */
    uint64_t call_millis;   /* one call, and with it the wait for a lost rank to come back: 10 minutes */
    uint64_t finish_millis; /* until all ranks have reached the end: 10 minutes */
} rejoin_limits;

#define REJOIN_LIMITS_INIT {sizeof(rejoin_limits), 0, 0, 0}

/*
 * Joins as the rank that `rejoin run` has started this process as. `terms` says what the program assumes (its name and
 * version, its parameters) and has to be equal at all ranks.
 *
 * *communicator is set whatever is returned, so that its message can be read, and has to be closed.
 * Only when memory for it is lacking, or `communicator` is NULL, it isn't.
 *
 * Returns REJOIN_OVER when there is nothing left to do; REJOIN_BAD_STATE when the process was not
 * started by a launcher; else as rejoin_join().
 */
rejoin_status rejoin_join_launched(const char *terms, const rejoin_limits *limits, rejoin_communicator **communicator);

/* What a process is given of its job by its starter. Begin with REJOIN_CONFIG_INIT. */
typedef struct rejoin_config {
    size_t size;                    /* sizeof(rejoin_config) */
    const char *job;                /* 32 hexadecimal digits */
    const uint8_t *secret;          /* 32 bytes; hand them over by a channel without other readers */
    const char *tracker;            /* address and port, as 10.0.0.1:4711 */
    const char *listen;             /* the IP address that peers reach this process at; NULL: 127.0.0.1 */
    const char *ports;              /* 0 (any), a port, or FIRST-LAST; NULL: any */
    const char *host;               /* name of this host: who shares it is near; NULL: the address above */
    const char *executor;           /* name of this process, which no other one of the job has */
    int32_t encrypt;                /* 1: links between ranks are encrypted (they are always authenticated) */
    uint64_t tracker_timeout_millis; /* how long the tracker may be out of reach at the start; 0: 10 s */
    /* bytes of memory for results that a rank that comes back is given again, over all ranks of this
       process; older ones go to disk; 0: 1 GiB */
    uint64_t log_memory;
    /* the same on disk, where more is REJOIN_OUT_OF_SPACE; 0: 16 GiB; 1 is as good as none */
    uint64_t log_disk;
    /* the folder for those on disk, in files without names; NULL: the system's for temporary files */
    const char *spill;
    /* a folder that is there and that all processes of the job see, where checkpoints are written in
       the background: should all processes die at once, the newest whole one is gone on from; NULL:
       none */
    const char *durable;
    uint32_t durable_every;         /* every how many versions one is written; 0: 1 */
    /* how many other processes hold each rank's own model (rejoin_checkpoint_with_own), on other
       hosts where there are any: so many less one may die at the same moment as the rank. Where
       there are fewer others, each of them holds one. The same at all ranks of a job; 0: 2 */
    uint64_t own_copies;
} rejoin_config;

#define REJOIN_CONFIG_INIT \
    {sizeof(rejoin_config), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, 0}

/*
 * Starts this process's part: a listener and one thread. *process is set whatever is returned, as
 * with rejoin_join_launched().
 *
 * Returns REJOIN_BAD_ARGUMENT for a setting that can't be used, REJOIN_IO when no port or thread is to be had or
 * the folder of durable checkpoints can't be read.
 */
rejoin_status rejoin_process_start(const rejoin_config *config, rejoin_process **process);

/* Why the last call with it failed. */
const char *rejoin_process_message(const rejoin_process *process);

/* Frees it. Communicators that were made of it stay usable, and keep its thread alive. NULL is allowed. */
void rejoin_process_close(rejoin_process *process);

/*
 * Takes a rank's slot and waits until it can start: at the first rendezvous until all ranks are
 * there, later until the checkpoint that it starts from is here. `stage` counts the starts of all
 * ranks together, `task` those of this rank alone; a newer pair takes the slot from an older one.
 * *communicator is set as with rejoin_join_launched().
 *
 * Returns REJOIN_OVER when there is nothing left to do; REJOIN_FENCED when the slot belongs to a
 * newer task, REJOIN_MEMBERS_MISSING, REJOIN_TRACKER_UNREACHABLE, REJOIN_TIMED_OUT,
 * REJOIN_INCOMPATIBLE (other terms), or the job's own error. The rank has no slot then.
 */
rejoin_status rejoin_join(rejoin_process *process, uint32_t rank, uint32_t stage, uint32_t task, const char *terms,
                          const rejoin_limits *limits, rejoin_communicator **communicator);

/*
 * The same in a job whose ranks aren't its tasks' numbers, since some stand by as spares or the world
 * shrinks and grows (rejoin_tracker_config.min): task `number`, from 0, which no other living process
 * has, asks the job for a rank by its own `stage` and `task`, and joins as what it is given, which
 * rejoin_rank() says; after REJOIN_RESIZED, rejoin_join_again() may say another one. A task that no
 * rank is left for waits here until there is one, or the job is over. Besides what rejoin_join()
 * returns: REJOIN_FENCED when a newer try of the task is there.
 */
rejoin_status rejoin_join_as_task(rejoin_process *process, uint32_t number, uint32_t stage, uint32_t task,
                                  const char *terms, const rejoin_limits *limits, rejoin_communicator **communicator);

/*
 * Takes part again after a call returned REJOIN_ROLLED_BACK or REJOIN_RESIZED: in the same process,
 * as the rank's next incarnation. Then rejoin_load() says what it starts from; after REJOIN_RESIZED
 * rejoin_rank() and rejoin_world() may say others than before. The process keeps what it holds for
 * the others; one that ends instead is as right and is started again, but what it held is gone with
 * it. After REJOIN_ROLLED_BACK neither counts as a death. What was loaded or gathered with the
 * handle is freed.
 *
 * Returns REJOIN_BAD_STATE when no call has returned one of the two: the handle stays as it is.
 * Else as rejoin_join(); after a failure this process should end.
 */
rejoin_status rejoin_join_again(rejoin_communicator *communicator);

/* Why the last call with it failed; empty when it didn't. */
const char *rejoin_message(const rejoin_communicator *communicator);

/*
 * This rank, the number of ranks, and how often this rank was started before. When the join has
 * failed, the rank that was asked for, 0 and 0.
 */
uint32_t rejoin_rank(const rejoin_communicator *communicator);
uint32_t rejoin_world(const rejoin_communicator *communicator);
uint32_t rejoin_incarnation(const rejoin_communicator *communicator);

/*
 * Where this rank is among the ranks of its host (local_rank of local_size), and among the ranks
 * that have its local rank, one a host (cross_rank of cross_size), as MPI programs and Horovod's
 * know it. It may change with any call, when a rank has come back on another host or the world was
 * resized. REJOIN_BAD_ARGUMENT for NULL; REJOIN_BAD_STATE when it is finished or left.
 */
typedef struct rejoin_placement {
  uint32_t local_rank;
  uint32_t local_size;
  uint32_t cross_rank;
  uint32_t cross_size;
} rejoin_placement;
rejoin_status rejoin_place(rejoin_communicator *communicator, rejoin_placement *placement);

/*
 * The version that this rank is in, as of its last call that is over: how many checkpoints the job
 * has taken. Any thread may ask.
 */
uint32_t rejoin_version(const rejoin_communicator *communicator);

/*
 * Frees it. Before rejoin_finish() this gives the rank's slot back, for its next incarnation. NULL
 * is allowed; closing a handle twice is as bad as freeing memory twice.
 */
void rejoin_close(rejoin_communicator *communicator);

/*
 * The rank's program has failed: gives its slot back with this reason, as `status` and text. Where
 * the status will repeat (see above; REJOIN_TRAINING_FAILED does), the job ends with it at all
 * ranks; otherwise, and for REJOIN_CANCELLED (one task of a framework was cancelled, not the job),
 * the rank may be started again. The handle is only to be closed after it.
 */
rejoin_status rejoin_abandon(rejoin_communicator *communicator, rejoin_status status, const char *reason);

/*
 * Shows a text (UTF-8) to whoever started the job: `rejoin run` says it on standard error, a Java
 * program's listener hears PRINTED. From any thread, and nobody waits for it. Up to 16 KiB of it, and
 * up to 256 KiB in a second; what is left out is said with the next one. (Rabit's TrackerPrint.)
 * REJOIN_BAD_STATE where the handle has never been a rank; the message is left as it was.
 */
rejoin_status rejoin_print(const rejoin_communicator *communicator, const char *text);

/* ---------------------------------------------------------------- collectives */

/*
 * What all of them return: REJOIN_OK; REJOIN_BAD_ARGUMENT for what can't work; REJOIN_MISMATCH when
 * ranks make different calls (the text names both calls and their sites); REJOIN_TIMED_OUT after
 * the limit of a call; REJOIN_FENCED when this incarnation was declared lost; REJOIN_BAD_STATE for
 * one before rejoin_load() that isn't a boot collective, and for a boot collective behind a
 * checkpoint; or the job's own error. All ranks have to make the same calls in the same order.
 */

/* Every element becomes the reduction of all ranks' elements at its place. */
rejoin_status rejoin_allreduce(rejoin_communicator *communicator, void *buffer, size_t count, rejoin_element element,
                               rejoin_reduction reduction, const char *site, const rejoin_options *options);

/*
 * Rank k gets the k-th part of the reduction of all ranks' `count` elements; rejoin_part() says
 * which that is, and so how many elements `output` takes. If `input` and `output` overlap, the
 * input is copied first.
 */
rejoin_status rejoin_reduce_scatter(rejoin_communicator *communicator, const void *input, size_t count, void *output,
                                    size_t output_count, rejoin_element element, rejoin_reduction reduction,
                                    const char *site, const rejoin_options *options);

/*
 * The part of `count` elements that is a rank's in a world of so many ranks, in that order: where it
 * begins, how long it is.
 */
rejoin_status rejoin_part(uint32_t rank, uint32_t world, size_t count, int32_t order, size_t *first, size_t *length);

/* All ranks get the root's elements; so does a root that was started again, once any rank has them. */
rejoin_status rejoin_broadcast(rejoin_communicator *communicator, void *buffer, size_t count, rejoin_element element,
                               uint32_t root, const char *site, const rejoin_options *options);

/*
 * All ranks get what each has, in rank order: `count` elements from each, world * count in
 * `output`. If the two overlap, the input is copied first.
 */
rejoin_status rejoin_allgather(rejoin_communicator *communicator, const void *input, size_t count, void *output,
                               rejoin_element element, const char *site, const rejoin_options *options);

/*
 * The same where each rank may have another number of elements. It is two collectives, of which the
 * first gathers the lengths: it takes two places in the version, for kill rules and
 * `rejoin run --calls`. *output is all elements in rank order, and (*counts)[k] how many of them
 * are rank k's; both belong to the handle and are there until the next call of this function with
 * it, or its close.
 */
rejoin_status rejoin_allgather_v(rejoin_communicator *communicator, const void *input, size_t count,
                                 rejoin_element element, const void **output, const size_t **counts, const char *site,
                                 const rejoin_options *options);

/*
 * The caller's own reduction of `count` elements, without alignment: puts accumulator o other into
 * the accumulator, element by element, and returns 0; anything else fails the call with
 * REJOIN_TRAINING_FAILED, which ends the job. It is called from left to right in the order of the
 * ranks, for each element at one rank only, and has to give the same bytes whenever it is given the
 * same: then it need be neither commutative nor associative.
 */
typedef int32_t (*rejoin_fold)(void *user, void *accumulator, const void *other, size_t count);

/*
 * An allreduce of elements of `element_bytes` bytes (1 to 1 GiB) with it. `name` says which
 * function it is, at all ranks the same. It takes a prepare function as rejoin_allreduce() does.
 * (Objects of up to `element_bytes` bytes, each padded to that length, are Rabit's
 * SerializeReducer.)
 */
rejoin_status rejoin_allreduce_custom(rejoin_communicator *communicator, void *buffer, size_t count,
                                      size_t element_bytes,
                                      const char *name, rejoin_fold fold, void *user, const char *site,
                                      const rejoin_options *options);

/* A reduce-scatter with it. */
rejoin_status rejoin_reduce_scatter_custom(rejoin_communicator *communicator, const void *input, size_t count,
                                           void *output, size_t output_count, size_t element_bytes,
                                           const char *name, rejoin_fold fold,
                                           void *user, const char *site, const rejoin_options *options);

/*
 * The same for an object of any length up to a limit: the accumulator has room for `limit` bytes,
 * of which *bytes are the object; the function replaces them and sets *bytes.
 */
typedef int32_t (*rejoin_fold_object)(void *user, void *accumulator, size_t *bytes, size_t limit, const void *other,
                                      size_t other_bytes);

/*
 * The object of every rank becomes the fold of all ranks' objects. `object` has room for `limit`
 * bytes, the same limit at all ranks; *bytes is its length, before and after. A whole limit's
 * length is sent whatever the object's length is.
 */
rejoin_status rejoin_allreduce_object(rejoin_communicator *communicator, void *object, size_t *bytes, size_t limit,
                                      const char *name, rejoin_fold_object fold, void *user, const char *site,
                                      const rejoin_options *options);

/* No rank goes on before all are there. */
rejoin_status rejoin_barrier(rejoin_communicator *communicator, const char *site, const rejoin_options *options);

/* ---------------------------------------------------------------- checkpoints */

/*
 * What this incarnation starts from: the version, and the model that was handed to the checkpoint
 * of that version (NULL and 0 bytes at version 0). The bytes belong to the handle and are there
 * until it is closed.
 *
 * Every program calls it, before its first checkpoint (after one it is REJOIN_BAD_STATE) and before
 * the first collective that isn't a boot one: such a one is refused with REJOIN_BAD_STATE, which
 * ends the job, in the first incarnation too. A rank that comes back after a checkpoint would make
 * it again, and the others would take it for a call of their version.
 */
rejoin_status rejoin_load(rejoin_communicator *communicator, uint32_t *version, const void **model, size_t *bytes);

/*
 * The model that only this rank had at that version (see rejoin_checkpoint_with_own); NULL and 0
 * bytes where none was taken, and for a rank that wasn't in the world that took it. It belongs to
 * the handle, too. In an elastic job it is the one of the rank that this one was then.
 */
rejoin_status rejoin_load_own(rejoin_communicator *communicator, const void **own, size_t *bytes);

/*
 * The world that made the version which this incarnation starts from, where that is another one
 * than it is in. Ranks are numbered as they were then.
 */
typedef struct rejoin_former {
    uint32_t world; /* the number of ranks; 0: it is the world that this rank is in, as in any job that isn't elastic */
    int64_t rank;   /* which of them this rank was; -1: it wasn't there, or world is 0 */
    /* The ranks that are gone and whose own models this rank is given, in order: each is given to
       one rank that was there. They belong to the handle and are there until the next call of
       rejoin_former_world() or rejoin_join_again(), or until it is closed. */
    const uint32_t *given;
    size_t given_count; /* 0 where ranks have no own models */
} rejoin_former;

/* Returns REJOIN_BAD_ARGUMENT for NULL; REJOIN_BAD_STATE when it is finished or left. */
rejoin_status rejoin_former_world(rejoin_communicator *communicator, rejoin_former *former);

/*
 * The own model that a rank of that world had at the version which this incarnation starts from: of
 * one that this rank is given, or was itself. NULL and 0 bytes: it had none, or it is lost and may
 * be (`own_may_be_lost`, `rejoin run --own-may-be-lost`). It belongs to the handle, too, until that
 * is closed or joins again.
 *
 * Returns REJOIN_BAD_ARGUMENT for a rank whose model this one isn't given; the handle stays as it is.
 */
rejoin_status rejoin_load_own_of(rejoin_communicator *communicator, uint32_t rank, const void **own, size_t *bytes);

/*
 * Ends the version and begins the next one with this model, which has to be the same at all ranks.
 * It is copied into this process's memory, for ranks that come back. Also returns REJOIN_MISMATCH
 * when this incarnation has made fewer collectives of the version than were made before, or another
 * rank of this process has another model.
 */
rejoin_status rejoin_checkpoint(rejoin_communicator *communicator, const void *model, size_t bytes, const char *site);

/*
 * The same with a model that only this rank has, beside the one that all have. It is held by two
 * other processes (by rejoin_config.own_copies, or `rejoin run --own-copies`), on other hosts where
 * there are any, before this returns: so it survives this process. All ranks have to call this, or
 * none.
 */
rejoin_status rejoin_checkpoint_with_own(rejoin_communicator *communicator, const void *model, size_t bytes,
                                         const void *own, size_t own_bytes, const char *site);

/*
 * As rejoin_checkpoint() without the bytes, which are made when they are needed: a rank that
 * comes back, or a durable checkpoint. The supplier hands them to rejoin_supply(), which copies
 * them, and returns 0. `user` is an immutable snapshot of the model: whenever it is asked, until it
 * is released (about two versions later), the supplier gives the same bytes, the same at all ranks.
 * A pointer to the model that the program goes on with is none: copy it. The supplier of an
 * incarnation's first lazy checkpoint is asked in this call and in the next checkpoint, which fails
 * with REJOIN_MISMATCH if it gives something else by then. Supplier and release are called by this
 * thread and by threads of the library, one at a time; both must return, and must not use the
 * handle. `release` may be NULL; else it is called once, also when this call fails (but not when
 * the handle or the supplier is NULL).
 */
typedef struct rejoin_bytes rejoin_bytes;
typedef int32_t (*rejoin_supplier)(void *user, rejoin_bytes *into);
typedef void (*rejoin_release)(void *user);

void rejoin_supply(rejoin_bytes *into, const void *data, size_t bytes);
rejoin_status rejoin_checkpoint_lazy(rejoin_communicator *communicator, rejoin_supplier supplier,
                                     rejoin_release release, void *user, const char *site);

/*
 * The end: reports this model, which has to be the same at all ranks, and waits until all have.
 * Rank 0's bytes become the job's result, if the driver asks for it (`rejoin run`
 * doesn't). Whatever is returned, the handle is only to be closed after it.
 */
rejoin_status rejoin_finish(rejoin_communicator *communicator, const void *model, size_t bytes);

/* ---------------------------------------------------------------- ranks that train with XGBoost */

/*
 * XGBoost (3.0 to 3.4) is carried unmodified: its own communicator connects to this process, its
 * collectives go from there. A rank that comes back is given a checkpoint and all that it missed of
 * what XGBoost received. The model has the bytes of XGBoost's own tracker.
 *
 *     rejoin_xgboost_options options = REJOIN_XGBOOST_OPTIONS_INIT;
 *     options.version = "3.2.0";                    XGBoost has to be loaded already
 *     rejoin_xgboost_join_launched("my training 1", &options, NULL, &rank);
 *     rejoin_xgboost_load(rank, &version, &round, &complete, &checkpoint, &bytes);
 *     rejoin_xgboost_communicator(rank, &json);
 *     XGCommunicatorInit(json);
 *     ... make the matrices; update a Booster that is thrown away once, so that they are sketched ...
 *     rejoin_xgboost_enter(rank, version, round, checkpoint, bytes, NULL, 0, complete);
 *     for (; round < 100; round++) {
 *         ... XGBoosterUpdateOneIter ...
 *         after every 10th round, and after the last:
 *             rejoin_xgboost_enter(rank, ++version, round + 1, model, model_bytes, NULL, 0, round + 1 == 100);
 *     }
 *     XGCommunicatorFinalize();
 *     rejoin_xgboost_finish(rank, 100, model, model_bytes);
 *     rejoin_xgboost_close(rank);
 *
 * What has to be kept to, and why, is in docs/xgboost.md: seed_per_iteration is 1; what stands
 * before the first enter is done again by a rank that comes back, and everything that XGBoost sends
 * there is kept for the life of the job; where rejoin_xgboost_keeps_booster() is 0, every rank makes
 * its Booster anew of the checkpoint's bytes after each enter.
 *
 * Threads: XGBoost's communicator belongs to a thread, and that thread makes all calls with the
 * handle from rejoin_xgboost_communicator() on. rejoin_xgboost_free() alone may be called by another
 * one, also while a call or XGBoost is at work, until the handle is closed. All else is as is said
 * at the top: statuses, messages, what holds after a failure.
 */
typedef struct rejoin_xgboost_process rejoin_xgboost_process;

/* One rank in one incarnation. */
typedef struct rejoin_xgboost rejoin_xgboost;

/* Whether XGBoost's collectives are taken over by Rejoin's own, which are faster. */
enum {
    REJOIN_HOOK_AUTO = 0, /* where the XGBoost that is loaded at every rank allows it; the bytes are the same */
    REJOIN_HOOK_OFF = 1   /* all of its bytes go through its own sockets */
};

/* Begin with REJOIN_XGBOOST_OPTIONS_INIT. */
typedef struct rejoin_xgboost_options {
    size_t size;         /* sizeof(rejoin_xgboost_options) */
    const char *version; /* of the XGBoost that is loaded, as "3.2.0"; needed, and the same at all ranks */
    int32_t hook;
} rejoin_xgboost_options;

#define REJOIN_XGBOOST_OPTIONS_INIT {sizeof(rejoin_xgboost_options), NULL, REJOIN_HOOK_AUTO}

/*
 * As rejoin_join_launched(), for a rank that trains with XGBoost: joins as the rank that `rejoin
 * run` has started this process as. *rank is set whatever is returned, and has to be closed.
 *
 * Of the limits `call_millis` is not used: how long a rank may be missing is the tracker's to say
 * (`rejoin run --members`). `rejoin run --calls` prints nothing of these ranks.
 *
 * Also returns REJOIN_INCOMPATIBLE for a version of XGBoost that is not supported, or is another
 * one at another rank.
 */
rejoin_status rejoin_xgboost_join_launched(const char *terms, const rejoin_xgboost_options *options,
                                           const rejoin_limits *limits, rejoin_xgboost **rank);

/*
 * Starts a process's part where the launcher is your own: as rejoin_process_start(), with a bridge
 * to XGBoost and its thread. log_memory and log_disk are for the bytes that ranks that come back
 * are given again; own_copies isn't used. *process is set whatever is returned.
 */
rejoin_status rejoin_xgboost_process_start(const rejoin_config *config, const rejoin_xgboost_options *options,
                                           rejoin_xgboost_process **process);

/* As rejoin_process_message() and rejoin_process_close(). Ranks that were made of it stay usable. */
const char *rejoin_xgboost_process_message(const rejoin_xgboost_process *process);
void rejoin_xgboost_process_close(rejoin_xgboost_process *process);

/* As rejoin_join(); see rejoin_xgboost_join_launched() for the limits, and for what else is returned. */
rejoin_status rejoin_xgboost_join(rejoin_xgboost_process *process, uint32_t number, uint32_t stage, uint32_t task,
                                  const char *terms, const rejoin_limits *limits, rejoin_xgboost **rank);

/* As rejoin_join_as_task(), in a job with spares; REJOIN_TIMED_OUT when none was given within `limits->join_millis`. */
rejoin_status rejoin_xgboost_join_as_task(rejoin_xgboost_process *process, uint32_t number, uint32_t stage,
                                          uint32_t task, const char *terms, const rejoin_limits *limits,
                                          rejoin_xgboost **rank);

/* Why the last call with it failed; empty when it didn't. Not to be called while another thread makes one. */
const char *rejoin_xgboost_message(const rejoin_xgboost *rank);

/* This rank, the number of ranks, and how often this rank was started before. 0 when there is nothing to do. */
uint32_t rejoin_xgboost_rank(const rejoin_xgboost *rank);
uint32_t rejoin_xgboost_world(const rejoin_xgboost *rank);
uint32_t rejoin_xgboost_incarnation(const rejoin_xgboost *rank);

/* 1 if the job has agreed on the hook, else 0. */
int32_t rejoin_xgboost_is_hooked(const rejoin_xgboost *rank);

/*
 * 1 if a Booster that goes on trains as one that was loaded from a checkpoint (from 3.3 on); 0 if
 * all ranks have to make theirs anew of the checkpoint's bytes at every version.
 */
int32_t rejoin_xgboost_keeps_booster(const rejoin_xgboost *rank);

/*
 * What this incarnation starts from: the version, its first round, whether nothing is left to
 * train (1), and the bytes that were given to rejoin_xgboost_enter() for it (NULL and 0 at version
 * 0). They belong to the handle and are there until it is closed.
 */
rejoin_status rejoin_xgboost_load(rejoin_xgboost *rank, uint32_t *version, uint32_t *round, int32_t *complete,
                                  const void **checkpoint, size_t *bytes);

/* What only this rank had at that version; NULL and 0 bytes where none was given. It belongs to the handle, too. */
rejoin_status rejoin_xgboost_load_own(rejoin_xgboost *rank, const void **own, size_t *bytes);

/*
 * Opens the way in for XGBoost in this thread, once. *json is the text that XGBoost's
 * XGCommunicatorInit takes, with a secret in it; it belongs to the handle and is there until its
 * close. A communicator that couldn't be opened leaves XGBoost with one rank: don't train then, and
 * compare XGCommunicatorGetWorldSize() before each round.
 */
rejoin_status rejoin_xgboost_communicator(rejoin_xgboost *rank, const char **json);

/*
 * Ends the present phase (the start, or a version) and enters `version`, whose first round is
 * `round` (both from 0), before XGBoost sends anything of it. The first one of an incarnation is
 * the version that it starts at, with the checkpoint that it was given. `checkpoint` is what a rank
 * that comes back starts from, the same bytes at every rank; it is copied into this process's
 * memory. `own`, if it isn't NULL, is what only this rank has; the tracker keeps it, so it may have
 * 262144 bytes and no more. `complete` (1) says that nothing is left to train.
 *
 * Returns REJOIN_BAD_ARGUMENT for a longer `own`, and the rank is where it was; REJOIN_MISMATCH when
 * ranks have other bytes or are at another place, REJOIN_ROLLED_BACK or REJOIN_FENCED when this
 * incarnation is over, REJOIN_OUT_OF_SPACE.
 */
rejoin_status rejoin_xgboost_enter(rejoin_xgboost *rank, uint32_t version, uint32_t round, const void *checkpoint,
                                   size_t bytes, const void *own, size_t own_bytes, int32_t complete);

/*
 * This round begins, within a version. Needed only where rejoin_xgboost_incarnation() isn't 0, for
 * the count of rounds that are computed twice. XGBoost must not be at work.
 */
rejoin_status rejoin_xgboost_begin_round(rejoin_xgboost *rank, uint32_t round);

/*
 * The end: reports that so many rounds have made this model, the same bytes at all ranks, and waits
 * until all have. Rank 0's bytes become the job's result, if the driver asks for it. The handle is
 * only to be closed after it.
 */
rejoin_status rejoin_xgboost_finish(rejoin_xgboost *rank, uint32_t rounds, const void *model, size_t bytes);

/*
 * REJOIN_OK while this rank is in order; else why its calls end, with the text in its message.
 * After a call of XGBoost has failed, this is the cause and that the consequence.
 */
rejoin_status rejoin_xgboost_failure(rejoin_xgboost *rank);

/*
 * Frees a thread that is stuck in XGBoost, from any thread: this rank's calls end with `status` and
 * the reason, XGBoost's with an error of its own. The message is left as it was.
 */
rejoin_status rejoin_xgboost_free(const rejoin_xgboost *rank, rejoin_status status, const char *reason);

/* As rejoin_abandon(). */
rejoin_status rejoin_xgboost_abandon(rejoin_xgboost *rank, rejoin_status status, const char *reason);

/* As rejoin_close(). XGBoost's communicator is to be finalized before. */
void rejoin_xgboost_close(rejoin_xgboost *rank);

/* ---------------------------------------------------------------- a tracker in your own driver */

/*
 * What coordinates a job, in the process of whoever starts its ranks: by fork, ssh, or any
 * framework. It sees which processes live, tells a rank that comes back where it starts, and keeps
 * the result. Starting ranks, and starting the dead ones again, is the caller's part.
 *
 *     rejoin_tracker_config config = REJOIN_TRACKER_CONFIG_INIT;
 *     config.world = 2;
 *     status = rejoin_tracker_open(&config, &tracker);
 *     ... start a process for each rank, which is given rejoin_tracker_job(), rejoin_tracker_secret()
 *         and rejoin_tracker_address(), a name of its own, its rank, and 0 as `task`, for
 *         rejoin_process_start() and rejoin_join() ...
 *     while ((status = rejoin_tracker_poll(tracker, 100, &event)) == REJOIN_OK) {
 *         ... event, if it isn't NULL, says what happened ...
 *         ... a process that has died: rejoin_tracker_notify(tracker, its name, "SIGKILL"); start the
 *             rank again, in a process of another name, with the next `task` ...
 *     }
 *     if (status == REJOIN_OVER) rejoin_tracker_result(tracker, &model, &bytes);
 *     else fprintf(stderr, "%s\n", rejoin_tracker_message(tracker));           why the job failed
 *     ... wait for the processes to end ...
 *     rejoin_tracker_close(tracker);
 *
 * A whole program is examples/c/driver.c.
 *
 * One thread at a time polls and asks for the result. Beside it, any thread may call
 * rejoin_tracker_notify(), rejoin_tracker_leaves() and rejoin_tracker_cancel(), and those that
 * return texts, until the tracker is closed; they change the message only where they fail, and no
 * other call is under way. A failure of the job leaves the handle as it was. No thread makes a call
 * while another one closes it, or after that.
 */
typedef struct rejoin_tracker rejoin_tracker;

/* What a job is. Begin with REJOIN_TRACKER_CONFIG_INIT, and say the world. */
typedef struct rejoin_tracker_config {
    size_t size;             /* sizeof(rejoin_tracker_config) */
    uint32_t world;          /* the number of ranks, from 1 to 4096; needed */
    const char *job;         /* the job's id, 32 hexadecimal digits; NULL: drawn at random */
    const uint8_t *secret;   /* 32 bytes that nobody else knows; NULL: drawn at random */
    const char *listen;      /* the IP address that the ranks' processes reach; NULL: 127.0.0.1 */
    const char *ports;       /* 0 (any), a port, or FIRST-LAST, the first free one of which is taken; NULL: any */
    int32_t encrypt;         /* 1: links between ranks are encrypted; what the tracker hears always is */
    const char *name;        /* the job's name in the join file; NULL: its id */
    /* written for this user alone, and removed by the close: `rejoin run --join` starts ranks by it,
       which needn't be given anything else then. It must not be there. NULL: none */
    const char *join_file;
    /* which death of one rank ends the job with REJOIN_UNRECOVERABLE; 0: none does, and whoever starts
       ranks gives up by rejoin_tracker_cancel() */
    uint32_t deaths;
    uint64_t lost_after_millis; /* silence after which a process is declared lost; 0: 1.5 s */
    uint64_t members_millis;    /* how long a rank may be missing, until REJOIN_MEMBERS_MISSING; 0: 1 minute */
    /* the fewest ranks that the world may shrink to, at most `world`: then processes join by
       rejoin_join_as_task(). 0: the world is fixed, and the next five have to be 0 */
    uint32_t min;
    uint32_t max;                    /* the most that it may grow to, at least `world`; 0: `world` */
    uint64_t elastic_timeout_millis; /* how long a replacement is waited for before it shrinks; 0: 30 s */
    uint64_t resize_interval_millis; /* how long it doesn't grow after it has changed; 0: 10 s */
    /* how often the world may change: after that it doesn't grow, and if it had to shrink, the job
       ends with REJOIN_UNRECOVERABLE; 0: any number of times */
    uint32_t most_resizes;
    /* 1: the own models of ranks that are gone may be lost, should no copy of one be left; 0: the job
       ends with REJOIN_UNRECOVERABLE then, which says whose */
    int32_t own_may_be_lost;
} rejoin_tracker_config;

#define REJOIN_TRACKER_CONFIG_INIT \
    {sizeof(rejoin_tracker_config), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/*
 * Opens the job's tracker: a listener and one thread. *tracker is set whatever is returned, so that
 * its message can be read, and has to be closed. Only when `tracker` is NULL it isn't.
 *
 * Returns REJOIN_BAD_ARGUMENT for a setting that can't be used, or a join file that is there
 * already; REJOIN_IO when no port or thread is to be had or the join file can't be written. Nothing
 * is left behind then.
 */
rejoin_status rejoin_tracker_open(const rejoin_tracker_config *config, rejoin_tracker **tracker);

/*
 * Why the last call with it failed, or the job; empty when it didn't. After rejoin_tracker_notify(),
 * _leaves() and _cancel(), which may come while another thread polls, why the calling thread's did.
 */
const char *rejoin_tracker_message(const rejoin_tracker *tracker);

/*
 * What a rank's process is given: the job's id (32 hexadecimal digits), the secret (32 bytes, which
 * should go by a way without other readers, as a pipe), and the tracker's address and port. They
 * belong to the handle and stay until it is closed; NULL if it couldn't be opened.
 */
const char *rejoin_tracker_job(const rejoin_tracker *tracker);
const uint8_t *rejoin_tracker_secret(const rejoin_tracker *tracker);
const char *rejoin_tracker_address(const rejoin_tracker *tracker);

/*
 * The next event, waiting for it at most so long (0: not at all). *event is a JSON object of one
 * line with one key, the event's name, and its fields, the same as in a log of `rejoin run
 * --events`:
 *
 *     {"RankLost":{"rank":1,"incarnation":0,"executor":"…","reason":"…","silent_millis":3,"deaths":1}}
 *
 * It is NULL when none came in time, belongs to the handle, and stays until the next poll. One event
 * asks for something: after
 *
 *     {"KillWanted":{"index":1,"attempt":{"stage":0,"task":0},"executor":"…","reason":"…"}}
 *
 * kill that process, if it is still there, and start its rank again: it was declared lost, but may
 * only be frozen, and nothing that it still does counts.
 *
 * Returns REJOIN_OK while the job goes on or events are left. After the last one, again and again:
 * REJOIN_OVER when all ranks have reached the end, or the error that the job has failed with
 * (REJOIN_MEMBERS_MISSING, REJOIN_MISMATCH, what rejoin_tracker_cancel() was given, ...), with its
 * text as the message. REJOIN_BAD_STATE for a tracker that couldn't be opened.
 */
rejoin_status rejoin_tracker_poll(const rejoin_tracker *tracker, uint64_t timeout_millis, const char **event);

/* 1 once the job has ended, well or with an error: a poll's status is the job's own then. Events may be left. */
int32_t rejoin_tracker_is_over(const rejoin_tracker *tracker);

/*
 * The model that rank 0 has finished with (NULL and 0 bytes for an empty one), once a poll has
 * returned REJOIN_OVER. The bytes belong to the handle and are there until it is closed.
 *
 * Returns REJOIN_BAD_STATE while the job goes on; the job's error if it failed.
 */
rejoin_status rejoin_tracker_result(const rejoin_tracker *tracker, const void **model, size_t *bytes);

/*
 * The process of this name (rejoin_config.executor) is gone, as whoever has started it knows, and
 * why, in words (NULL: unknown). Its ranks are declared lost at once: nobody waits for its silence
 * to be long enough. A name that the tracker doesn't know, or that is gone already, changes nothing.
 * Nor does anything after the job's end.
 */
rejoin_status rejoin_tracker_notify(const rejoin_tracker *tracker, const char *executor, const char *reason);

/*
 * In a job with `min`: the process that joins as this number and this try (rejoin_join_as_task())
 * is about to be ended, and no other one is started in its place. Should there be a slot for one
 * again, a later try takes part as any other. The ranks finish the version that they are in,
 * and go on without it; the event
 *
 *     {"TaskReleased":{"index":1,"attempt":{"stage":0,"task":0},"executor":"…","reason":"…"}}
 *
 * says when nothing is lost by the end of this try. That may never come (the world would be too
 * small, say): end the process after a time of your own. Then what the others were in is done again,
 * and no replacement is waited for.
 */
rejoin_status rejoin_tracker_leaves(const rejoin_tracker *tracker, uint32_t number, uint32_t stage,
                                    uint32_t task);

/*
 * Ends the job with this failure (REJOIN_CANCELLED, say) and the reason, which every rank's call
 * returns, and a poll when all events were taken. After the job's end it does nothing.
 */
rejoin_status rejoin_tracker_cancel(const rejoin_tracker *tracker, rejoin_status failure, const char *reason);

/*
 * Stops listening, removes the join file, and frees the handle with all that belongs to it. A job
 * that is still going on ends: its ranks' calls return REJOIN_CANCELLED. A process that comes later
 * finds no tracker; so wait for the ranks' processes to end first. NULL is allowed.
 */
void rejoin_tracker_close(rejoin_tracker *tracker);

/* ---------------------------------------------------------------- pages of prepared input */

/*
 * The input of a durable Spark training (spark.rejoin.durable), as it is stored in the training's
 * folder: pages, each of which is some rows of one partition. docs/pages.md describes them. Here a
 * program reads them that trains in another way, on a file system that its machine has:
 *
 *     rejoin_input *input;
 *     rejoin_page *page;
 *     rejoin_page_view view = REJOIN_PAGE_VIEW_INIT;
 *     status = rejoin_input_open("/durable/1f2e…", "training", &input);
 *     for (uint64_t number = 0; number < rejoin_input_pages(input); number++) {
 *         status = rejoin_page_read(input, number, &page);
 *         if (status != REJOIN_OK) fprintf(stderr, "%s\n", rejoin_page_message(page));
 *         status = rejoin_page_get(page, &view);
 *         ... view.rows rows: view.labels, view.features, ...
 *         rejoin_page_free(page);
 *     }
 *     rejoin_input_close(input);
 *
 * A page is known by the input's digest and its number, which is counted over all partitions, in
 * their order. Its bytes are compared with their SHA-256 before any of them is used.
 *
 * An input that was opened doesn't change: any number of threads read it at once, until it is
 * closed. Pages have nothing to do with it after they were read.
 */
typedef struct rejoin_input rejoin_input;

/* One page that was read and verified. */
typedef struct rejoin_page rejoin_page;

enum {
    REJOIN_PAGE_DENSE = 1, /* every value of every row */
    REJOIN_PAGE_CSR = 2, /* of each row the values that are not missing, and their columns */
    REJOIN_PAGE_SPARK_ROWS = 3 /* rows in Spark's own format, compressed: only Spark reads them */
};

/* A page's arrays, in its own memory: they belong to the page, and are there until it is freed. */
typedef struct rejoin_page_view {
    size_t size;         /* sizeof(rejoin_page_view) */
    int32_t kind;        /* REJOIN_PAGE_DENSE, ... */
    int32_t from_sparse; /* 1: some row came as a sparse vector */
    uint32_t rows;       /* at least one */
    uint32_t columns;    /* features of a row; of Spark's rows, fields */
    uint64_t values;     /* numbers in `features`; of Spark's rows, their bytes before compression */
    uint64_t number;     /* the page's, counted over all partitions; 0 by rejoin_page_copy() */
    uint32_t partition;  /* the partition that it is of; 0 by rejoin_page_copy() */
    const float *labels; /* rows; NULL of Spark's rows, as the next four */
    const float *weights; /* rows, or NULL: the input has none */
    const float *margins; /* rows, or NULL */
    const int32_t *groups; /* rows, the query group of each, or NULL */
    /* dense: rows * columns, row after row; CSR: `values`, row after row. A missing value is NaN, or
       whatever the training calls missing; of CSR pages also what isn't there */
    const float *features;
    const uint32_t *row_ends; /* CSR: rows, the end of each in `features`; the first row begins at 0; else NULL */
    const uint32_t *value_columns; /* CSR: values, the column of each, below `columns`; else NULL */
    const void *spark_rows; /* a length (4 bytes, big-endian) and what Spark's codec made of the rows; else NULL */
    size_t spark_rows_bytes;
    const void *data; /* the whole page */
    size_t bytes;
    const char *sha256; /* of all its bytes, as 64 hexadecimal digits */
} rejoin_page_view;

#define REJOIN_PAGE_VIEW_INIT \
    {sizeof(rejoin_page_view), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL}

/*
 * Opens an input in the folder of one training: reads its list, and none of its pages. `name` is
 * "training" or "evaluation". *input is set whatever is returned, so that its message can be read,
 * and has to be closed. Only when `input` is NULL it isn't.
 *
 * Returns REJOIN_BAD_ARGUMENT when there is no such list, so that no input was stored to its end;
 * REJOIN_INCOMPATIBLE for a list of another version; REJOIN_INPUT_LOST when it is damaged; REJOIN_IO
 * when it can't be read.
 */
rejoin_status rejoin_input_open(const char *folder, const char *name, rejoin_input **input);

/* Why it couldn't be opened; empty when it could. */
const char *rejoin_input_message(const rejoin_input *input);

/*
 * What the input is, as 64 hexadecimal digits: equal digests are equal pages in the same partitions,
 * whatever folder they are in. It belongs to the handle; NULL if that couldn't be opened.
 */
const char *rejoin_input_digest(const rejoin_input *input);

/* How many rows all pages have, how many pages and partitions there are; 0 if it couldn't be opened. */
uint64_t rejoin_input_rows(const rejoin_input *input);
uint64_t rejoin_input_pages(const rejoin_input *input);
uint32_t rejoin_input_partitions(const rejoin_input *input);

/*
 * The number of a partition's first page: it has those from this one to the next partition's first
 * one. Of what comes behind the last partition, the number of all pages.
 */
uint64_t rejoin_input_first_page(const rejoin_input *input, uint32_t partition);

/*
 * The value that is as good as none in every page of it, as the training's estimator has it: a
 * matrix made of the pages has to be given it. What isn't in a CSR page is missing, and dense pages
 * of the same input hold this value there. NaN for NULL.
 */
float rejoin_input_missing(const rejoin_input *input);

/*
 * The name of the features in a column, counted from 0, and XGBoost's type of them ("q", "c", ...),
 * as the training's estimator has them. NULL where none was set, or there is no such column. They
 * belong to the handle.
 */
const char *rejoin_input_feature_name(const rejoin_input *input, uint32_t column);
const char *rejoin_input_feature_type(const rejoin_input *input, uint32_t column);

/* Frees the handle and what belongs to it. NULL is allowed. */
void rejoin_input_close(rejoin_input *input);

/*
 * Reads a page by its number and verifies it. *page is set whatever is returned, so that its message
 * can be read, and has to be freed. Only when `page` is NULL it isn't.
 *
 * Returns REJOIN_BAD_ARGUMENT for a number that there isn't; REJOIN_INPUT_LOST when the page's file is
 * missing or isn't what the list says; REJOIN_INCOMPATIBLE when it was written by other rules, as
 * another version's; REJOIN_IO when it can't be read; REJOIN_OUT_OF_SPACE without memory for it.
 */
rejoin_status rejoin_page_read(const rejoin_input *input, uint64_t number, rejoin_page **page);

/*
 * The same of bytes that the program has from elsewhere, which are copied. `sha256` is what was kept
 * of the page, 64 hexadecimal digits. Returns REJOIN_INPUT_LOST when they are other bytes.
 */
rejoin_status rejoin_page_copy(const void *data, size_t bytes, const char *sha256, rejoin_page **page);

/* Why the last call with it failed; empty when it didn't. */
const char *rejoin_page_message(const rejoin_page *page);

/* Fills the view, which begins with REJOIN_PAGE_VIEW_INIT. REJOIN_BAD_STATE for a page that couldn't be read. */
rejoin_status rejoin_page_get(const rejoin_page *page, rejoin_page_view *view);

/* Frees the page with its arrays. NULL is allowed. */
void rejoin_page_free(rejoin_page *page);

/* ---------------------------------------------------------------- the library itself */

/* For instance "0.1.0". */
const char *rejoin_library_version(void);

/*
 * What the library's threads log on standard error: "off" (as it is at the start, unless the variable REJOIN_LOG says
 * otherwise), "error", "warn", "info", "debug" or "trace". REJOIN_BAD_ARGUMENT for another word; the level stays.
 */
rejoin_status rejoin_log_level(const char *level);

/* The digest by which Rejoin compares bytes (XXH3, 128 bits) as 32 hexadecimal digits and a zero byte. */
void rejoin_digest(const void *data, size_t bytes, char text[33]);

#ifdef __cplusplus
}
#endif

#endif
