/* Spillway's checkpoint library for C and for whatever can call C. Link with -lspillway_checkpoint, or load libspillway_checkpoint.so.1.
 *
 * Stable: a function or a field that is here stays, with its meaning, as long as the library's name ends in .so.1. Structures begin with their
 * own size, so that fields can be added at the end: fill it in with sizeof before a call, or with spw_writer_options_init.
 *
 * Errors: a function that returns int32_t gives 0 or one of the codes below; spw_last_error() then says what was wrong, in this thread, until
 * the next call. Text is UTF-8 and ends in 0. What a function returns by pointer belongs to the library and lives as long as the object it was
 * asked of, unless it says otherwise. An object may be used by one thread at a time.
 */
#ifndef SPILLWAY_CHECKPOINT_C_H_
#define SPILLWAY_CHECKPOINT_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller can do about it. */
enum {
  SPW_OK = 0,
  SPW_INVALID_ARGUMENT = 3,    /* correct the call */
  SPW_DEADLINE_EXCEEDED = 4,   /* another process of a joint save did not come */
  SPW_NOT_FOUND = 5,           /* nothing there: start anew */
  SPW_ALREADY_EXISTS = 6,      /* this step is committed already, and good */
  SPW_RESOURCE_EXHAUSTED = 8,  /* the disk is full: go on training, try again later */
  SPW_FAILED_PRECONDITION = 9, /* it does not fit: another tensor, shape, dtype or job */
  SPW_ABORTED = 10,            /* another attempt owns the directory: stop */
  SPW_UNIMPLEMENTED = 12,      /* of a later version */
  SPW_INTERNAL = 13,           /* the operating system said no; the message has its words */
  SPW_UNAVAILABLE = 14,        /* it may work again */
  SPW_DATA_LOSS = 15,          /* damaged */
  SPW_UNAUTHENTICATED = 16     /* the key: missing, another one, or not to be had. Never a reason to start anew */
};

/* Element types: the codes of docs/reference/checkpoint-format.md. */
enum {
  SPW_F32 = 1,
  SPW_F16 = 2,
  SPW_BF16 = 3,
  SPW_F64 = 4,
  SPW_I8 = 5,
  SPW_U8 = 6,
  SPW_I16 = 7,
  SPW_U16 = 8,
  SPW_I32 = 9,
  SPW_U32 = 10,
  SPW_I64 = 11,
  SPW_U64 = 12,
  SPW_BOOL = 13,
  SPW_F8_E4M3 = 14,
  SPW_F8_E5M2 = 15,
  SPW_C64 = 16,
  SPW_C128 = 17
};

/* A tensor in memory, dense and row-major, in the byte order of the machine (little-endian). To save, or as a place to restore to. */
typedef struct spw_tensor {
  size_t struct_size;
  const char* name;
  int32_t dtype;
  int32_t dims;                /* 0: a scalar */
  const int64_t* shape;        /* `dims` extents, of what is in memory */
  void* data;                  /* only read when saving */
  int64_t bytes;               /* product of shape times the size of the type */
  const int64_t* global_shape; /* when this is a part of a larger tensor: `dims` extents of the whole. NULL: it is whole */
  const int64_t* offset;       /* and where in the whole it begins */
} spw_tensor;

/* A committed checkpoint. */
typedef struct spw_checkpoint {
  size_t struct_size;
  int64_t attempt;
  int64_t step;
  int64_t bytes;            /* of all containers */
  char manifest_sha256[65]; /* hex */
} spw_checkpoint;

uint32_t spw_abi_version(void);        /* 2; grows when functions or fields are added */
const char* spw_library_version(void); /* "0.1.0" */
const char* spw_last_error(void);      /* "" when the last call of this thread worked */

/* ---- Encryption (version 2 of the interface) ----
 *
 * A key is SPW_KEY_BYTES bytes. What takes none uses the one that SPILLWAY_CHECKPOINT_KEY_FILE (a path), _FD (a descriptor's number, read once a process) or
 * _COMMAND (a JSON array of strings) names, when one is set; what takes one uses that, and NULL is none whatever is set. With a key checkpoints
 * are saved encrypted, and only encrypted ones are restored. UNAUTHENTICATED: all that is wrong with a key. */
#define SPW_KEY_BYTES 32

/* 64 hex digits in a file of this user's that nobody else may read. */
int32_t spw_key_from_file(const char* path, unsigned char* key);
/* Lets `new_key` open the checkpoint in the step directory `path`, and `old_key` no longer, unless keep_old. What is registered of it stays as it is. */
int32_t spw_rewrap(const char* path, const unsigned char* old_key, const unsigned char* new_key, int32_t keep_old);

/* ---- Saving ---- */

typedef struct spw_writer spw_writer;

typedef struct spw_writer_options {
  size_t struct_size;
  const char* directory;  /* SPILLWAY_CHECKPOINT_DIR, or any directory; made when absent */
  const char* job_uid;    /* SPILLWAY_JOB_UID; NULL: "" */
  int64_t attempt;        /* SPILLWAY_ATTEMPT; 0: one more than any that wrote there */
  int64_t parent_attempt; /* what this attempt resumed from; 0: nothing */
  int64_t parent_step;
  int32_t rank; /* of this process among world_size, which save together and see the same directory */
  int32_t world_size;
  int64_t peers_wait_ms; /* how long a process waits for the others */
  int64_t keep_last;     /* outside Spillway: checkpoints to keep, 2 or more; 0: all */
  int64_t keep_best;     /* and that many by the metadata's `metric` */
  int64_t keep_every;    /* and every step that is a multiple of it; 0: none */
  const char* metric;
  int32_t maximize; /* the highest is the best */
} spw_writer_options;

void spw_writer_options_init(spw_writer_options* options); /* the defaults: attempt 0, rank 0 of 1, 10 minutes, keep all */

/* The writer owns the directory until another one is opened on it. ABORTED: a higher attempt has it. */
int32_t spw_writer_open(const spw_writer_options* options, spw_writer** out);
int32_t spw_writer_open_with_key(const spw_writer_options* options, const unsigned char* key, spw_writer** out);
void spw_writer_close(spw_writer* writer); /* NULL is allowed */
int64_t spw_writer_attempt(const spw_writer* writer);

/* `metadata`: pairs of pointers, key and value, `metadata_count` pairs. With several processes every one calls it, with its own parts of the tensors; rank 0's
 * metadata counts. After OK the checkpoint survives power loss; after an error every earlier checkpoint is untouched. `out` may be NULL.
 * RESOURCE_EXHAUSTED, ALREADY_EXISTS, ABORTED, DEADLINE_EXCEEDED as above. */
int32_t spw_writer_save(spw_writer* writer, int64_t step, const spw_tensor* tensors, size_t tensor_count, const char* const* metadata, size_t metadata_count,
                        spw_checkpoint* out);
/* Where the last save of this writer that worked lies; "" before. Valid until the next save. */
const char* spw_writer_saved_path(const spw_writer* writer);
/* Why pruning failed after the last save; "" when it did not. */
const char* spw_writer_pruning_error(const spw_writer* writer);

/* ---- Restoring ---- */

typedef struct spw_reader spw_reader;

typedef struct spw_tensor_info {
  size_t struct_size;
  const char* name;
  int32_t dtype;
  int32_t dims;
  const int64_t* shape; /* of the whole tensor, however many processes saved parts of it */
} spw_tensor_info;

/* One checkpoint: a step directory. DATA_LOSS, NOT_FOUND. */
int32_t spw_reader_open(const char* path, spw_reader** out);
/* The newest good one from `resume_from` back (a step directory, or the directory of an attempt or run for its newest): every byte is verified.
 * `job_uid` NULL or "": of any job. NOT_FOUND: there is none. DATA_LOSS: all are damaged. */
int32_t spw_reader_open_newest(const char* resume_from, const char* job_uid, spw_reader** out);
int32_t spw_reader_open_with_key(const char* path, const unsigned char* key, spw_reader** out);
int32_t spw_reader_open_newest_with_key(const char* resume_from, const char* job_uid, const unsigned char* key, spw_reader** out);
void spw_reader_close(spw_reader* reader); /* NULL is allowed */

void spw_reader_checkpoint(const spw_reader* reader, spw_checkpoint* out);
const char* spw_reader_path(const spw_reader* reader);
size_t spw_reader_tensor_count(const spw_reader* reader);
int32_t spw_reader_tensor(const spw_reader* reader, size_t index, spw_tensor_info* out); /* by name */
size_t spw_reader_metadata_count(const spw_reader* reader);
int32_t spw_reader_metadata(const spw_reader* reader, size_t index, const char** key, const char** value);
/* Newer checkpoints that could not be used, newest first. */
size_t spw_reader_skipped_count(const spw_reader* reader);
int32_t spw_reader_skipped(const spw_reader* reader, size_t index, const char** path, const char** why);

/* Fills target->data: the whole tensor, or with global_shape and offset any part of it, whichever processes saved it.
 * FAILED_PRECONDITION: it is missing, or has another dtype or shape. DATA_LOSS: damaged. */
int32_t spw_reader_read(const spw_reader* reader, const spw_tensor* target);

/* ---- A run under Spillway ---- */

typedef struct spw_run spw_run;

/* From the SPILLWAY_ variables; works without them too. INVALID_ARGUMENT: one does not parse. */
int32_t spw_run_from_environment(spw_run** out);
void spw_run_close(spw_run* run); /* NULL is allowed */

int32_t spw_run_under_spillway(const spw_run* run);     /* 1 or 0 */
int64_t spw_run_attempt(const spw_run* run);            /* 1 without Spillway */
const char* spw_run_job_uid(const spw_run* run);        /* "" without Spillway */
const char* spw_run_checkpoint_dir(const spw_run* run); /* "" when there is none */
const char* spw_run_resume_from(const spw_run* run);    /* "" for a fresh start */
/* 1 when this process has been told to stop, with the reason in `reason` (may be NULL; valid until the next call), and 0 otherwise. One stat(2). */
int32_t spw_run_notice(spw_run* run, const char** reason, int64_t* ms_left /* -1: not known; may be NULL */);

/* Sent at once or dropped. total 0: not known. */
void spw_run_progress(spw_run* run, int64_t step, int64_t total, const char* const* metric_names, const double* metric_values, size_t metric_count);
/* Tells Spillway of a committed checkpoint. An error is no reason to stop: it is found at the end of the attempt all the same. */
int32_t spw_run_report_checkpoint(spw_run* run, const spw_checkpoint* checkpoint, const char* path);
int32_t spw_run_report_completed(spw_run* run);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SPILLWAY_CHECKPOINT_C_H_ */
