// Calls XGBoost's collective the way XGBoost does: through its table of virtual functions, with
// arguments passed by a C++ compiler. The classes are XGBoost's (src/collective/coll.h,
// include/xgboost/span.h, include/xgboost/collective/result.h) as far as the calls need them.
// -DWITH_CONTEXT: from 3.3 on.
#include <cstddef>
#include <cstdint>

struct Context;
struct Comm;

template <typename T>
struct Span {
  std::size_t size;
  T *data;
};

// Its destructor is what makes it be returned through a hidden pointer. The message of an error leaks.
struct Result {
  void *impl;
  Result() : impl{nullptr} {}
  ~Result() {}
};

enum class Type : std::int8_t {};
enum class Op {};
enum class AllgatherVAlgo {};

#ifdef WITH_CONTEXT
#define FIRST Context const *,
#define NO_CONTEXT nullptr,
#else
#define FIRST
#define NO_CONTEXT
#endif

struct Coll {
  virtual ~Coll() noexcept(false);
  virtual Coll *MakeCUDAVar();
  virtual Result Allreduce(FIRST Comm const &, Span<std::int8_t>, Type, Op);
  virtual Result Broadcast(FIRST Comm const &, Span<std::int8_t>, std::int32_t);
  virtual Result Allgather(FIRST Comm const &, Span<std::int8_t>);
  virtual Result AllgatherV(FIRST Comm const &, Span<std::int8_t const>, Span<std::int64_t const>, Span<std::int64_t>,
                            Span<std::int8_t>, AllgatherVAlgo);
};

// CommGroup: shared_ptr<HostComm>, shared_ptr<Comm>, shared_ptr<Coll>.
struct Group {
  Comm *comm;
  void *comm_count;
  void *gpu_comm;
  void *gpu_comm_count;
  Coll *coll;
};

// `GlobalCommGroup()`, the calling thread's: a reference to a unique_ptr.
using GetGroup = Group **(*)();

namespace {
// 0: success. 1: an error was returned. 2: an exception was thrown.
template <typename F>
int Call(GetGroup get, F f) {
  try {
    Group *group = *get();
    return f(group->coll, *group->comm).impl == nullptr ? 0 : 1;
  } catch (...) {
    return 2;
  }
}
}  // namespace

extern "C" {
int probe_allreduce(GetGroup get, std::int8_t *data, std::size_t bytes, int type, int op) {
  return Call(get, [&](Coll *coll, Comm const &comm) {
    return coll->Allreduce(NO_CONTEXT comm, {bytes, data}, static_cast<Type>(type), static_cast<Op>(op));
  });
}

int probe_broadcast(GetGroup get, std::int8_t *data, std::size_t bytes, int root) {
  return Call(get, [&](Coll *coll, Comm const &comm) { return coll->Broadcast(NO_CONTEXT comm, {bytes, data}, root); });
}

int probe_allgather(GetGroup get, std::int8_t *data, std::size_t bytes) {
  return Call(get, [&](Coll *coll, Comm const &comm) { return coll->Allgather(NO_CONTEXT comm, {bytes, data}); });
}

int probe_allgather_v(GetGroup get, std::int8_t const *own, std::size_t bytes, std::int64_t const *sizes,
                      std::int64_t *offsets, std::size_t world, std::int8_t *received, std::size_t all, int algo) {
  return Call(get, [&](Coll *coll, Comm const &comm) {
    return coll->AllgatherV(NO_CONTEXT comm, {bytes, own}, {world, sizes}, {world + 1, offsets}, {all, received},
                            static_cast<AllgatherVAlgo>(algo));
  });
}
}
