// The ordinary step of an emulated environment without a line of Python of our own.
//
// Both classes only know the case that fits. They leave all else, refusals included, to the Python
// functions that they are made with, which write a row anew from its beginning.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace puffer {

namespace nb = nanobind;

// The part of NumPy's array object that its C API documents (PyArrayObject), up to its flags. The
// buffer protocol tells the same, but NumPy allocates for every array that is asked the first time.
struct NumpyArray {
    PyObject_HEAD
    void *data;
    int ndim;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *dtype;
    int flags;

    static constexpr int c_contiguous = 1;

    bool is_contiguous() const { return (flags & c_contiguous) != 0; }

    // Whether NumPy lays its arrays out like this: true of every NumPy so far.
    static bool describes(const nb::object &array, const Py_buffer &view) {
        const auto *self = reinterpret_cast<const NumpyArray *>(array.ptr());
        return self->data == view.buf && self->ndim == view.ndim &&
               self->dtype == nb::getattr(array, "dtype").ptr() && self->is_contiguous() &&
               std::memcmp(self->shape, view.shape, view.ndim * sizeof(Py_ssize_t)) == 0;
    }
};

// A leaf of a structured space, with its place in the row, or keys and what is behind them.
class SampleNode {
   public:
    // `parts`: (list of keys, list of parts), or (dtype, field, otherwise): an ndarray of `dtype`
    // and of the field's shape is copied into the field; `otherwise` takes any other value.
    explicit SampleNode(const nb::tuple &parts) {
        if (nb::isinstance<nb::list>(parts[0])) {
            keys_ = nb::cast<nb::list>(parts[0]);
            for (const nb::handle child : parts[1]) {
                children_.emplace_back(nb::cast<nb::tuple>(child));
            }
            return;
        }
        dtype_ = parts[0];
        field_ = parts[1];
        otherwise_ = parts[2];
        Py_buffer view;
        if (PyObject_GetBuffer(field_.ptr(), &view, PyBUF_ND | PyBUF_WRITABLE) != 0) {
            throw nb::python_error();
        }
        target_ = view.buf;
        nbytes_ = view.len;
        shape_.assign(view.shape, view.shape + view.ndim);
        knows_layout_ = NumpyArray::describes(field_, view);
        PyBuffer_Release(&view);
    }

    // Whether the sample had the keys of the space and was written.
    bool write(PyObject *sample) const {
        if (!keys_.is_valid()) {
            if (!copy(sample)) {
                otherwise_(nb::handle(sample));
            }
            return true;
        }
        const bool is_dict = PyDict_CheckExact(sample);
        const auto count = static_cast<Py_ssize_t>(children_.size());
        if ((!is_dict && !PyTuple_CheckExact(sample)) || PyObject_Size(sample) != count) {
            return false;
        }
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject *value =
                is_dict ? PyDict_GetItemWithError(sample, PyList_GET_ITEM(keys_.ptr(), i))
                        : PyTuple_GET_ITEM(sample, i);
            if (value == nullptr) {
                if (PyErr_Occurred()) {
                    throw nb::python_error();
                }
                return false;
            }
            // What the sample holds may be replaced while a leaf's Python function runs.
            if (!children_[i].write(nb::borrow(value).ptr())) {
                return false;
            }
        }
        return true;
    }

   private:
    bool copy(PyObject *value) const {
        if (!knows_layout_ || Py_TYPE(value) != Py_TYPE(field_.ptr())) {
            return false;
        }
        const auto *array = reinterpret_cast<const NumpyArray *>(value);
        // NumPy has one object for each of its own dtypes; byte order is part of it.
        const bool fits = array->dtype == dtype_.ptr() && array->is_contiguous() &&
                          array->ndim == static_cast<int>(shape_.size()) &&
                          std::equal(shape_.begin(), shape_.end(), array->shape);
        if (fits) {
            std::memmove(target_, array->data, nbytes_);  // it may be the row itself
        }
        return fits;
    }

    nb::object keys_;
    std::vector<SampleNode> children_;
    nb::object dtype_, field_, otherwise_;
    void *target_ = nullptr;
    std::size_t nbytes_ = 0;
    std::vector<Py_ssize_t> shape_;
    bool knows_layout_ = false;
};

// Writes samples of a space into one row.
class RowWriter {
   public:
    RowWriter(const nb::tuple &parts, nb::object otherwise)
        : root_(parts), otherwise_(std::move(otherwise)) {}

    void write(const nb::handle sample) const {
        if (!root_.write(sample.ptr())) {
            otherwise_(sample);
        }
    }

   private:
    SampleNode root_;
    nb::object otherwise_;
};

// The memory of an array that was handed over for its elements to be written.
template <typename Scalar>
Scalar *elements(const nb::object &array) {
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_ND | PyBUF_WRITABLE) != 0) {
        throw nb::python_error();
    }
    PyBuffer_Release(&view);
    return static_cast<Scalar *>(view.buf);
}

// The one behind its bound method `write`; null where that is another function.
inline const RowWriter *writer_of(const nb::object &write) {
    const nb::object owner = nb::getattr(write, "__self__", nb::none());
    return nb::isinstance<RowWriter>(owner) ? nb::cast<RowWriter *>(owner) : nullptr;
}

// Steps one Gymnasium environment, or resets it after its last step, and writes its row.
struct RowStep {
    bool ready;             // false: whatever comes next is not ordinary
    nb::object env_reset;   // of the environment
    nb::object env_step;    // of the environment
    nb::object act;         // the action that the row of actions holds; None: its one integer
    nb::object write;       // takes an observation
    nb::object check;       // what to call when the row is written and will be acted upon, or None
    nb::object step_anew;   // all of a step, given its actions
    nb::object take_first;  // the rest of a reset, given what the environment returned
    nb::object take;        // the rest of a step, given what the environment returned
    nb::object actions;     // the row that `act` reads
    nb::list last_reward;   // of one element, as the environment gave it
    std::array<nb::object, 4> arrays;  // of one element: reward, terminal, truncation, ended
    float *reward = elements<float>(arrays[0]);
    bool *terminal = elements<bool>(arrays[1]);
    bool *truncation = elements<bool>(arrays[2]);
    bool *ended = elements<bool>(arrays[3]);
    const std::int64_t *choice = act.is_none() ? elements<std::int64_t>(actions) : nullptr;
    const RowWriter *writer = writer_of(write);  // called without a detour through Python

    std::array<nb::object *, 8> functions() {
        return {&env_reset, &env_step, &act, &write, &check, &step_anew, &take_first, &take};
    }

    nb::object step(const nb::handle given) {
        if (!ready || !given.is(actions)) {
            return step_anew(given);
        }
        if (*ended) {
            const nb::object result = call(PyObject_CallNoArgs(env_reset.ptr()));
            if (!has_info(result.ptr(), 2)) {
                return take_first(result);
            }
            return write_row(result.ptr(), 0, false, false);
        }
        const nb::object action =
            call(choice ? PyLong_FromLongLong(*choice) : PyObject_CallNoArgs(act.ptr()));
        const nb::object result = call(PyObject_CallOneArg(env_step.ptr(), action.ptr()));
        if (!has_info(result.ptr(), 5)) {
            return take(result);
        }
        PyObject *given_reward = PyTuple_GET_ITEM(result.ptr(), 1);
        const double number = PyFloat_AsDouble(given_reward);
        const int is_terminal = PyErr_Occurred() ? -1 : truth(result.ptr(), 2);
        const int is_truncation = is_terminal < 0 ? -1 : truth(result.ptr(), 3);
        if (is_truncation < 0) {
            PyErr_Clear();
            return take(result);
        }
        last_reward[0] = nb::borrow(given_reward);
        return write_row(result.ptr(), number, is_terminal, is_truncation);
    }

   private:
    static nb::object call(PyObject *result) {
        if (result == nullptr) {
            throw nb::python_error();
        }
        return nb::steal(result);
    }

    // Whether a result is a tuple as in Gymnasium's API, with an info at its end.
    static bool has_info(PyObject *result, Py_ssize_t size) {
        return PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == size &&
               PyDict_CheckExact(PyTuple_GET_ITEM(result, size - 1));
    }

    static int truth(PyObject *result, Py_ssize_t i) {
        return PyObject_IsTrue(PyTuple_GET_ITEM(result, i));
    }

    nb::object write_row(PyObject *result, double number, bool is_terminal, bool is_truncation) {
        PyObject *observation = PyTuple_GET_ITEM(result, 0);
        if (writer != nullptr) {
            writer->write(observation);
        } else {
            call(PyObject_CallOneArg(write.ptr(), observation));
        }
        *reward = static_cast<float>(number);
        const bool is_last = is_terminal || is_truncation;
        if (!is_last && !check.is_none()) {
            call(PyObject_CallNoArgs(check.ptr()));
        }
        *terminal = is_terminal;
        *truncation = is_truncation;
        *ended = is_last;
        nb::list infos;
        PyObject *info = PyTuple_GET_ITEM(result, PyTuple_GET_SIZE(result) - 1);
        if (PyDict_GET_SIZE(info) != 0) {
            infos.append(nb::handle(info));
        }
        return infos;
    }
};

// An environment's rows hold their step, which holds them: for Python's garbage collector to see.
inline int traverse_row_step(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        for (const nb::object *held : nb::inst_ptr<RowStep>(self)->functions()) {
            Py_VISIT(held->ptr());
        }
    }
    return 0;
}

inline int clear_row_step(PyObject *self) {
    RowStep *step = nb::inst_ptr<RowStep>(self);
    step->ready = false;
    for (nb::object *held : step->functions()) {
        held->reset();
    }
    return 0;
}

inline PyType_Slot row_step_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(traverse_row_step)},
    {Py_tp_clear, reinterpret_cast<void *>(clear_row_step)},
    {0, nullptr},
};

inline void bind_row_step(nb::module_ &module) {
    using namespace nb::literals;
    nb::class_<RowWriter>(module, "RowWriter")
        .def(nb::init<nb::tuple, nb::object>(), "parts"_a, "otherwise"_a)
        .def("write", &RowWriter::write, "sample"_a.none());
    nb::class_<RowStep>(module, "RowStep", nb::type_slots(row_step_slots))
        .def(
            "__init__",
            [](RowStep *self, nb::object env_reset, nb::object env_step, nb::object act,
               nb::object write, nb::object check, nb::object step_anew, nb::object take_first,
               nb::object take, nb::object actions, nb::list last_reward, nb::object reward,
               nb::object terminal, nb::object truncation, nb::object ended) {
                new (self) RowStep{false,
                                   env_reset,
                                   env_step,
                                   act,
                                   write,
                                   check,
                                   step_anew,
                                   take_first,
                                   take,
                                   actions,
                                   last_reward,
                                   {reward, terminal, truncation, ended}};
            },
            "env_reset"_a, "env_step"_a, "act"_a.none(), "write"_a, "check"_a.none(), "step_anew"_a,
            "take_first"_a, "take"_a, "actions"_a, "last_reward"_a, "reward"_a, "terminal"_a,
            "truncation"_a, "ended"_a)
        .def_rw("ready", &RowStep::ready)
        .def_rw("env_reset", &RowStep::env_reset)
        .def_rw("env_step", &RowStep::env_step)
        .def("step", &RowStep::step, "actions"_a);
}

}  // namespace puffer
