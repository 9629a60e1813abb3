"""Compiles kernels. A kernel that Python calls becomes one module, together with all kernels that it calls.

Numba by itself makes machine code, wrappers and a cache entry for every function, and optimises it together
with everything that it calls, although Python calls only a few of them: 9 of the 246 kernels of a collector.
Here, a kernel that another kernel calls is an `Inner`: it is typed and lowered once, and kept in that form.
A kernel that Python calls is an entry: its inner kernels are linked once, and are optimised together with it.

Machine code is made for a level of processors, not for the present processor, so that it can be shipped
(`make wheel`).
"""

# mypy: disable-error-code="attr-defined"
# Numba does not declare what it sets, and re-exports what it imports.

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import bytecode, cgutils, compiler, config, ir, sigutils, typing
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from ..errors import HopscopeError
from . import frontend as frontend  # replaces functions of Numba
from .kernel_cache import PACKAGE, cache_folder, fingerprint, folder_of

_LEVEL = "x86-64-v3"
_NEEDS = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_FEATURES = "+prfchw"
"""`prefetch` for writing; processors of this level that lack the instruction treat it as a no-op.

Compared with the host's own target (Zen 3, bench/decode_detect.py, medians of five pairs), decoding is 2-5 %
slower, and decoding with detection between 4 % faster and 3 % slower. A second set of kernels would be kept
for differences above 5 %.
"""


def _record_name(record: Any) -> tuple[str, tuple[int]]:
    """The name of a record type within a function's name: made from its fields, so that it is the same in
    every process.
    """
    return "Record", (int(hashlib.blake2b(record.name.encode(), digest_size=7).hexdigest(), 16),)


numba.types.Record.mangling_args = property(_record_name)  # type: ignore[method-assign,assignment]


def _check_bounds(context: Any, builder: Any, index: Any, length: Any, axis: Any = None) -> None:
    """A bounds check (NUMBA_BOUNDSCHECK=1) by one comparison, with one exit for each function.

    Numba compares twice, and has an exit for each comparison, so that there is more to compile.
    """
    function = builder.function
    if (outside := getattr(function, "outside", None)) is None:
        outside = function.outside = function.append_basic_block("outside")
        with builder.goto_block(outside):
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
    inside = function.append_basic_block("inside")
    builder.cbranch(builder.icmp_unsigned("<", index, length), inside, outside)
    builder.position_at_end(inside)


cgutils.do_boundscheck = _check_bounds  # type: ignore[assignment,unused-ignore]


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection, since the compiler makes many objects, nearly all of which stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _choose_target() -> str:
    """The name of the target of machine code. Sets the target for the whole process, unless it is already
    set.
    """
    features = llvm.get_host_cpu_features()
    fresh = "_toplevel_target_context" not in vars(cpu_target) and config.CPU_NAME is None
    if fresh and platform.machine() == "x86_64" and all(features.get(name) for name in _NEEDS):
        config.CPU_NAME, config.CPU_FEATURES = _LEVEL, _FEATURES
    elif fresh and platform.machine() == "aarch64":
        config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    triple, cpu, extra = cpu_target.target_context.codegen().magic_tuple()
    if extra not in ("", _FEATURES):
        cpu += "-" + hashlib.blake2b(extra.encode(), digest_size=4).hexdigest()
    machine = f"{sys.platform}-{triple.split('-')[0]}-{cpu}"
    return f"{machine}-{sys.implementation.cache_tag}-numba-{numba.__version__}-{llvmlite.__version__}"


TARGET = _choose_target()
"""Name of the folder of compiled kernels, made of processor, Python and compiler."""


class KernelError(HopscopeError):
    """Compiled kernels cannot be used; the message says what to do."""


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """The code of one function, not yet optimised with the functions that it calls, and the libraries of
    these.
    """

    def __init__(self, codegen: Any, name: str, owner: KernelDispatcher, args: tuple[Any, ...]) -> None:
        super().__init__(codegen, name)
        self.owner, self.args = owner, args
        self.callees: dict[InnerLibrary, None] = {}

    def add_linking_library(self, library: Any) -> None:
        """Note a callee; libraries of Numba itself are linked at once."""
        if isinstance(library, InnerLibrary):
            self.callees[library] = None
        elif library is not rtsys.library:  # reference counts, which kernels do not have
            super().add_linking_library(library)

    def finalize(self) -> None:
        """Finish the module without optimising or emitting anything."""
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def closure(self) -> Iterator[InnerLibrary]:
        """This library, and those of all functions that its function calls, directly or not."""
        ahead: list[InnerLibrary] = [self]
        found = set(ahead)
        while ahead:
            library = ahead.pop()
            yield library
            ahead += [callee for callee in library.callees if callee not in found]
            found |= library.callees.keys()


class EntryLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """The machine code of a function that Python calls, with all functions that it calls."""

    inner: InnerLibrary

    def finalize(self) -> None:
        """Link the closure, optimise and emit.

        Inner kernels that are inlined everywhere are dropped. They are not marked `internal`, because LLVM
        would then inline everything that is called once, and decoding a report of 6 hops and 8 fields would
        take 154 ns instead of 122. Numba's cheap pass, which by default runs before this one, is left out:
        kernels have no reference counts to prune, and with it, about half of all processes decoded at half
        the speed.
        """
        module = self._final_module
        wrappers = {function.name for function in module.functions if not function.is_declaration}
        for library in self.inner.closure():
            module.link_in(library._final_module, preserve=True)
        for function in module.functions:
            if not function.is_declaration and function.name not in wrappers:
                function.linkage = "linkonce_odr"
            if function.is_declaration and function.name.startswith("_ZN8hopscope"):
                raise KernelError(
                    f"compiled kernels do not fit each other ({function.name}); delete {cache_folder()}"
                )
        passes, builder = self._codegen._module_pass_manager()
        passes.run(module, builder)
        self._finalize_final_module()

    def environments(self) -> list[Any]:
        """Environments of the remaining functions: constants and globals for the errors that they raise."""
        names = [variable.name for variable in self._final_module.global_variables]
        found = [lookup_environment(name) for name in names if name.startswith("_ZN08NumbaEnv")]
        return [environment for environment in found if environment is not None]


class Inner:
    """A kernel for one set of argument types, in the form that other kernels call."""

    def __init__(self, signature: Any, fndesc: Any, environment: Any, library: InnerLibrary) -> None:
        self.signature, self.fndesc, self.environment, self.library = signature, fndesc, environment, library


@functools.cache
def _home(file: str) -> tuple[str | None, bool]:
    """The cache folder for the kernels of a source file (None if there is no such file), and whether the file
    belongs to Hopscope.
    """
    path = Path(file)
    if not path.is_file():
        return None, False
    path = path.resolve()
    return f"{TARGET}/{folder_of(path)}", path.is_relative_to(PACKAGE)


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc,unused-ignore]
    """A function that is compiled for each set of argument types, as an entry or an inner kernel."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], cached: bool) -> None:
        pipeline = KernelCompiler if cached else compiler.Compiler
        super().__init__(function, targetoptions=options, pipeline_class=pipeline)
        self.inner: dict[tuple[Any, ...], Inner] = {}
        self._folder: str | None = None
        if cached and function.__closure__ is None:
            self._folder, inside = _home(function.__code__.co_filename)
            self._name = function.__qualname__
            if not inside:
                self._name += f"-{function.__code__.co_firstlineno}"

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Answer type inference about a call; compiles the function for these types."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        found = self.inner_version(tuple(args))
        name = self.py_func.__name__
        template = typing.make_concrete_template(f"call of {name}", key=name, signatures=[found.signature])
        return template, pysig, args, {}

    def get_overload(self, sig: Any) -> Any:
        """The key by which lowering finds the code of a call."""
        args, _ = sigutils.normalize_signature(sig)
        return self.inner[tuple(args)]

    def inner_version(self, args: tuple[Any, ...]) -> Inner:
        """The inner kernel for these argument types, from memory, the cache, or the compiler."""
        if (found := self.inner.get(args)) is None:
            found = self._load_inner(args) or self._lower(args)
            self.inner[args] = found
            self.targetctx.insert_user_function(found, found.fndesc, [found.library])
        return found

    def compile(self, sig: Any) -> Any:
        """The function for Python to call with these argument types."""
        with global_compiler_lock:
            args, _ = sigutils.normalize_signature(sig)
            args = tuple(args)
            if (existing := self.overloads.get(args)) is not None:
                return existing.entry_point
            result = self._load_entry(args) or self._build_entry(args)
            self.add_overload(result)
            return result.entry_point

    def _flags(self) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        return flags

    def _lower(self, args: tuple[Any, ...]) -> Inner:
        from .kernel_cache import notify

        notify(f"{self.py_func.__module__.removeprefix('hopscope.')}.{self.py_func.__name__}")
        flags = self._flags()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = InnerLibrary(self.targetctx.codegen(), self.py_func.__qualname__, self, args)
        result = compiler.compile_extra(
            self.typingctx,
            self.targetctx,
            self.py_func,
            args=args,
            return_type=None,
            flags=flags,
            locals={},
            library=library,
            pipeline_class=self._compiler.pipeline_class,
        )
        library.finalize()
        inner = Inner(result.signature, result.fndesc, result.environment, library)
        inner.fndesc.typemap = inner.fndesc.calltypes = None
        callees = [
            (callee.owner.py_func.__module__, callee.owner.py_func.__qualname__, callee.args)
            for callee in library.callees
        ]
        bitcode = library._final_module.as_bitcode()
        self._save(
            "inner", args, (inner.signature, inner.fndesc, inner.environment, library.name, bitcode, callees)
        )
        return inner

    def _load_inner(self, args: tuple[Any, ...]) -> Inner | None:
        if (content := self._load("inner", args)) is None:
            return None
        signature, fndesc, environment, name, bitcode, callees = content
        library = InnerLibrary(self.targetctx.codegen(), name, self, args)
        for module, callee, types in callees:
            owner = getattr(importlib.import_module(module), callee, None)
            if not isinstance(owner, KernelDispatcher):
                return None
            library.callees[owner.inner_version(types).library] = None
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalized = True
        return Inner(signature, fndesc, environment, library)

    def _build_entry(self, args: tuple[Any, ...]) -> Any:
        from .kernel_cache import notify

        self.targetctx.refresh()  # imports all that Numba can compile, 0.4 s; machine code needs none of it
        with _without_collection():
            inner = self.inner_version(args)
        flags = self._flags()
        context = compiler._make_subtarget(self.targetctx, flags)
        library = EntryLibrary(self.targetctx.codegen(), inner.fndesc.qualname)
        library.enable_object_caching()
        library.inner = inner.library
        with context.push_code_library(library):
            context.create_cpython_wrapper(
                library, inner.fndesc, inner.environment, None, release_gil=flags.release_gil
            )
        library.finalize()
        notify("")
        environments = library.environments()
        parts = inner.signature, inner.fndesc, inner.environment, library, environments
        self._save("entry", args, (*parts[:3], library.name, library._get_compiled_object(), environments))
        return self._result(*parts)

    def _load_entry(self, args: tuple[Any, ...]) -> Any:
        if (content := self._load("entry", args)) is None:
            return None
        signature, fndesc, environment, name, machine_code, environments = content
        library = EntryLibrary(self.targetctx.codegen(), name)
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        library.codegen._engine._defined_symbols.add(fndesc.llvm_cpython_wrapper_name)
        return self._result(signature, fndesc, environment, library, environments)

    def _result(
        self, signature: Any, fndesc: Any, environment: Any, library: Any, environments: list[Any]
    ) -> Any:
        function = self.targetctx.get_executable(library, fndesc, environment)
        for used in environments:
            library.codegen.set_env(used.env_name, used)
        return compiler.compile_result(
            typing_context=self.typingctx,
            target_context=self.targetctx,
            entry_point=function,
            typing_error=None,
            type_annotation=None,
            library=library,
            call_helper=None,
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=fndesc,
            environment=environment,
            metadata={},
            reload_init=[],
            referenced_envs=environments,  # keeps them alive
        )

    def _file(self, kind: str, args: tuple[Any, ...]) -> str:
        types = hashlib.blake2b(repr([each.name for each in args]).encode(), digest_size=8).hexdigest()
        return f"{self._folder}/{self._name}-{types}.{kind}"

    def _kept(self, args: tuple[Any, ...]) -> bool:
        """Whether code for these types can be cached. With a function as argument it cannot, since the name
        of its type contains an address.
        """
        return self._folder is not None and not any(isinstance(each, numba.types.Dispatcher) for each in args)

    def _load(self, kind: str, args: tuple[Any, ...]) -> Any:
        if not self._kept(args):
            return None
        from . import kernel_cache

        content = kernel_cache.read(self._file(kind, args))
        return None if content is None else pickle.loads(content)

    def _save(self, kind: str, args: tuple[Any, ...], content: Any) -> None:
        if self._kept(args):
            from . import kernel_cache

            kernel_cache.write(self._file(kind, args), dumps(content))


@register_pass(mutates_CFG=False, analysis_only=False)
class FoldConstants(FunctionPass):  # type: ignore[misc,unused-ignore]
    """Turns `U64(3)` and `layout.WIDTH` into constants before type inference, which saves 10 % of the
    statements.
    """

    _name = "hopscope_fold_constants"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Replace expressions by constants, then drop assignments that only they used."""
        definitions = state.func_ir._definitions
        blocks = state.func_ir.blocks.values()
        for block in blocks:
            for statement in block.body:
                if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                    number = _number(statement.value, definitions)
                    if number is not None:
                        before, statement.value = statement.value, ir.Const(number, statement.loc)
                        name = statement.target.name  # which may be set elsewhere too
                        definitions[name] = [
                            statement.value if value is before else value for value in definitions[name]
                        ]
        used: set[str] = set()
        for block in blocks:
            for statement in block.body:
                names = [variable.name for variable in statement.list_vars()]
                if isinstance(statement, ir.Assign):
                    names.remove(statement.target.name)
                used.update(names)
        for block in blocks:
            block.body = [
                statement
                for statement in block.body
                if not isinstance(statement, ir.Assign)
                or statement.target.name in used
                or not statement.target.name.startswith("$")
                or not isinstance(statement.value, ir.Const | ir.Global | ir.FreeVar)
            ]
        return True


def _number(value: Any, definitions: Any) -> Any:
    """The value of an expression if it is a number that is known at compile time, else None."""
    if value.op == "getattr":
        found = _attribute(value, definitions)
        return found if isinstance(found, int | float | np.integer | np.bool_) else None
    if value.op == "call" and len(value.args) == 1 and not value.kws:
        kind, argument = _known(value.func, definitions), _known(value.args[0], definitions)
        if isinstance(kind, type) and issubclass(kind, np.integer) and isinstance(argument, int | np.integer):
            with contextlib.suppress(OverflowError):
                return kind(argument)
    return None


def _known(variable: Any, definitions: Any) -> Any:
    """The value of a variable that is set only once, to a known value, else None."""
    values = definitions[variable.name]
    if len(values) != 1:
        return None
    if isinstance(values[0], ir.Const | ir.Global | ir.FreeVar):
        return values[0].value
    if isinstance(values[0], ir.Expr) and values[0].op == "getattr":
        return _attribute(values[0], definitions)
    return None


def _attribute(value: Any, definitions: Any) -> Any:
    owner = _known(value.value, definitions)
    return getattr(owner, value.attr, None) if isinstance(owner, ModuleType) else None


class KernelCompiler(compiler.CompilerBase):  # type: ignore[misc,unused-ignore]
    """Numba's pipeline without the steps for features that no kernel uses: closures, `with`, array
    expressions, unrolled tuples.
    """

    def compile_extra(self, func: Any) -> Any:
        """Compile a function under a name that is the same in every process.

        Numba numbers functions in the order in which a process meets them. If two processes wrote inner
        kernels at the same time, their files would use different names for the same functions, and an entry
        linked from both would call functions that do not exist.
        """
        identity = bytecode.FunctionIdentity.from_function(func)
        path = Path(func.__code__.co_filename).resolve()
        if path.is_relative_to(PACKAGE) and "<locals>" not in func.__qualname__:
            identity.unique_id = int(fingerprint(path)[:12], 16)
            identity.unique_name = f"{identity.func_qualname}${identity.unique_id}"
        identity.is_kernel = True
        self.state.func_id = identity
        untyped.ExtractByteCode().run_pass(self.state)
        self.state.lifted, self.state.lifted_from = (), None
        return self._compile_bytecode()

    def define_pipelines(self) -> list[Any]:
        """The only pipeline."""
        manager = PassManager("kernel")
        for step in (
            untyped.TranslateByteCode,
            untyped.FixupArgs,
            untyped.IRProcessing,
            untyped.RewriteSemanticConstants,
            untyped.DeadBranchPrune,
            untyped.GenericRewrites,
            FoldConstants,
            untyped.ReconstructSSA,
            untyped.DeadBranchPrune,
            typed.NopythonTypeInference,
            typed.PreLowerStripPhis,
            typed.IRLegalization,
            typed.NativeLowering,
            typed.NoPythonBackend,
        ):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]
