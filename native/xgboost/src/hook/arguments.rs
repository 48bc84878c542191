//! Where the arguments of a C++ method are when it is called, and the calls of XGBoost's collectives in these terms.
//!
//! All arguments are integers, pointers, and spans (two words, by value). The Itanium C++ ABI
//! passes `this` like a first argument, and a result with a destructor by a hidden pointer; the
//! rest is the platform's (System V's ABI for x86_64, Arm's AAPCS64 as Linux has it):
//!
//! | | x86_64 | aarch64 |
//! |---|---|---|
//! | registers for arguments | 6 | 8 |
//! | the hidden pointer | is the first argument | has a register of its own, x8 |
//! | a span that doesn't fit in the registers that are left | goes on the stack; later words may still take registers | goes on the stack, and everything after it too |
//!
//! What the mangled names prove are the parameters' types. That a span is its length and then its
//! pointer, and that a result is one pointer which is null for success, was read in XGBoost's
//! headers (`span.h`, `result.h`) and is the same from 2.1 on.

/// How a platform passes arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convention {
    /// System V, x86_64.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // tested everywhere
    X86_64,
    /// AAPCS64.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    Aarch64,
}

impl Convention {
    #[cfg(target_arch = "x86_64")]
    pub(crate) const NATIVE: Convention = Convention::X86_64;
    #[cfg(target_arch = "aarch64")]
    pub(crate) const NATIVE: Convention = Convention::Aarch64;

    /// How many registers it has for arguments.
    pub(crate) const fn registers(self) -> usize {
        match self {
            Convention::X86_64 => 6,
            Convention::Aarch64 => 8,
        }
    }
}

/// The two forms in which XGBoost has its collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// 2.1 to 3.2: the communicator comes first.
    Plain,
    /// From 3.3: a pointer to the context comes before it.
    WithContext,
}

/// The functions that are swapped, in the order of their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Allreduce,
    Broadcast,
    Allgather,
    AllgatherV,
}

impl Operation {
    pub(crate) const ALL: [Operation; 4] =
        [Operation::Allreduce, Operation::Broadcast, Operation::Allgather, Operation::AllgatherV];
}

/// Elements that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// In elements.
    pub(crate) length: usize,
    pub(crate) address: usize,
}

/// A call, as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `element` is an `ArrayInterfaceHandler::Type`, `operator` a `collective::Op`.
    Allreduce {
        data: Span,
        element: i8,
        operator: i32,
    },
    Broadcast {
        data: Span,
        root: i32,
    },
    Allgather {
        data: Span,
    },
    /// `sizes` and `offsets` are spans of i64. How it is done (ring or tree) doesn't matter to its result.
    AllgatherV {
        data: Span,
        sizes: Span,
        offsets: Span,
        received: Span,
    },
}

/// The arguments of a call that is being made, one after the other.
pub(crate) struct Arguments<'a> {
    convention: Convention,
    /// The registers for arguments, all of them.
    registers: &'a [usize],
    used: usize,
    /// The next word on the stack.
    stack: *const usize,
}

impl<'a> Arguments<'a> {
    /// `registers` are all that the convention has for arguments; `stack` is where the first
    /// argument lies that has none.
    pub(crate) fn new(convention: Convention, registers: &'a [usize], stack: *const usize) -> Self {
        Arguments { convention, registers, used: 0, stack }
    }

    /// # Safety
    /// The caller has passed another argument, which is one word.
    pub(crate) unsafe fn word(&mut self) -> usize {
        match self.registers.get(self.used) {
            Some(register) => {
                self.used += 1;
                *register
            }
            // SAFETY: the next argument is there, and not in a register.
            None => unsafe { self.pop() },
        }
    }

    /// # Safety
    /// The caller has passed another argument, which is a span.
    unsafe fn span(&mut self) -> Span {
        if let Some(&[length, address]) = self.registers.get(self.used..self.used + 2) {
            self.used += 2;
            return Span { length, address };
        }
        if self.convention == Convention::Aarch64 {
            self.used = self.registers.len();
        }
        // SAFETY: the span is there, and not in registers: it isn't split.
        unsafe { Span { length: self.pop(), address: self.pop() } }
    }

    /// # Safety
    /// Another word was passed on the stack.
    unsafe fn pop(&mut self) -> usize {
        // SAFETY: every argument takes a whole number of words there.
        unsafe {
            let word = *self.stack;
            self.stack = self.stack.add(1);
            word
        }
    }

    /// What is called. Begins behind `this`.
    ///
    /// # Safety
    /// These are the arguments of that function in that form.
    pub(crate) unsafe fn call(mut self, operation: Operation, form: Form) -> Call {
        // SAFETY: the mangled names say that these are the parameters. What is narrower than a word
        // has no meaning above.
        unsafe {
            if form == Form::WithContext {
                self.word();
            }
            let _communicator = self.word();
            let data = self.span();
            match operation {
                Operation::Allreduce => {
                    Call::Allreduce { data, element: self.word() as i8, operator: self.word() as i32 }
                }
                Operation::Broadcast => Call::Broadcast { data, root: self.word() as i32 },
                Operation::Allgather => Call::Allgather { data },
                Operation::AllgatherV => {
                    Call::AllgatherV { data, sizes: self.span(), offsets: self.span(), received: self.span() }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: usize = 0xa;
    const CONTEXT: usize = 0xb;
    const COMMUNICATOR: usize = 0xc;
    const RESULT: usize = 0xd;

    fn span(seed: usize) -> Span {
        Span { length: seed, address: seed + 1 }
    }

    /// Reads a call of which these are the registers' and the stack's words.
    fn read(convention: Convention, form: Form, operation: Operation, registers: &[usize], stack: &[usize]) -> Call {
        let mut all = registers.to_vec();
        all.resize(if convention == Convention::X86_64 { 6 } else { 8 }, 0xdead);
        let mut arguments = Arguments::new(convention, &all, stack.as_ptr());
        // SAFETY: the tests lay out the calls as compilers do.
        unsafe {
            if convention == Convention::X86_64 {
                assert_eq!(arguments.word(), RESULT);
            }
            assert_eq!(arguments.word(), THIS);
            arguments.call(operation, form)
        }
    }

    #[test]
    fn an_allreduce_is_read_whatever_stands_above_its_narrow_arguments() {
        let (element, operator) = (0xffff_ff02_usize, 0x7777_0000_0002_usize);
        let expected = Call::Allreduce { data: span(40), element: 2, operator: 2 };
        let all = [
            (
                Convention::X86_64,
                Form::WithContext,
                vec![RESULT, THIS, CONTEXT, COMMUNICATOR, 40, 41],
                vec![element, operator],
            ),
            (Convention::X86_64, Form::Plain, vec![RESULT, THIS, COMMUNICATOR, 40, 41, element], vec![operator]),
            (
                Convention::Aarch64,
                Form::WithContext,
                vec![THIS, CONTEXT, COMMUNICATOR, 40, 41, element, operator],
                vec![],
            ),
            (Convention::Aarch64, Form::Plain, vec![THIS, COMMUNICATOR, 40, 41, element, operator], vec![]),
        ];
        for (convention, form, registers, stack) in all {
            assert_eq!(read(convention, form, Operation::Allreduce, &registers, &stack), expected);
        }
    }

    #[test]
    fn a_broadcast_and_an_allgather_are_read() {
        let expected = Call::Broadcast { data: span(40), root: 3 };
        let context = vec![RESULT, THIS, CONTEXT, COMMUNICATOR, 40, 41];
        let plain = vec![RESULT, THIS, COMMUNICATOR, 40, 41, 3];
        let (x86, arm) = (Convention::X86_64, Convention::Aarch64);
        assert_eq!(read(x86, Form::WithContext, Operation::Broadcast, &context, &[3]), expected);
        assert_eq!(read(x86, Form::Plain, Operation::Broadcast, &plain, &[]), expected);
        assert_eq!(
            read(arm, Form::WithContext, Operation::Broadcast, &[THIS, CONTEXT, COMMUNICATOR, 40, 41, 3], &[]),
            expected
        );
        assert_eq!(read(arm, Form::Plain, Operation::Broadcast, &plain[1..], &[]), expected);
        let expected = Call::Allgather { data: span(40) };
        assert_eq!(read(x86, Form::WithContext, Operation::Allgather, &context, &[]), expected);
        assert_eq!(read(x86, Form::Plain, Operation::Allgather, &plain, &[]), expected);
        assert_eq!(read(arm, Form::WithContext, Operation::Allgather, &context[1..], &[]), expected);
        assert_eq!(read(arm, Form::Plain, Operation::Allgather, &plain[1..], &[]), expected);
    }

    #[test]
    fn spans_that_find_no_two_registers_lie_on_the_stack_whole() {
        let expected = Call::AllgatherV { data: span(40), sizes: span(50), offsets: span(60), received: span(70) };
        let algorithm = 1;
        let all = [
            (
                Convention::X86_64,
                Form::WithContext,
                vec![RESULT, THIS, CONTEXT, COMMUNICATOR, 40, 41],
                vec![50, 51, 60, 61, 70, 71, algorithm],
            ),
            // One register is left when the first span finds no two; the algorithm takes it.
            (
                Convention::X86_64,
                Form::Plain,
                vec![RESULT, THIS, COMMUNICATOR, 40, 41, algorithm],
                vec![50, 51, 60, 61, 70, 71],
            ),
            // The same here, but nothing takes it any more.
            (
                Convention::Aarch64,
                Form::WithContext,
                vec![THIS, CONTEXT, COMMUNICATOR, 40, 41, 50, 51],
                vec![60, 61, 70, 71, algorithm],
            ),
            (
                Convention::Aarch64,
                Form::Plain,
                vec![THIS, COMMUNICATOR, 40, 41, 50, 51, 60, 61],
                vec![70, 71, algorithm],
            ),
        ];
        for (convention, form, registers, stack) in all {
            assert_eq!(read(convention, form, Operation::AllgatherV, &registers, &stack), expected);
        }
    }
}
