import { stat } from "node:fs/promises";
import type { Fit } from "../../api/fit.ts";
import type { EngineRefusal, SlotInputs } from "../../engines/engine.ts";
import { engineEstimate, printArguments } from "../../models/fit/engine-figures.ts";
import { estimate, type Estimate } from "../../models/fit/estimate.ts";
import { isBeyondHeader, isBeyondPrint, settingsOf } from "../../models/fit/flags.ts";
import { declaredRequirement, measuredRequirement, reserving } from "../../models/fit/need.ts";
import type { RemoteShapes } from "../../models/fetch/remote-shapes.ts";
import type { HeaderFiles } from "../../models/header-files.ts";
import { ProjectorCache } from "../../models/fit/projector.ts";
import { ShapeCache } from "../../models/fit/shape-cache.ts";
import { specFit } from "../../models/fit/spec-fit.ts";
import { judge } from "../../models/fit/verdict.ts";
import type { FitFigureFile } from "../../store/state/fit-figures.ts";
import { fitQuestion, type FitQuestion } from "./fit-question.ts";
import {
  figureOf,
  fitOf,
  measuredBytes,
  onEngineDevices,
  refusalOf,
  totalOf,
  type KnownModel,
  type StageFigure,
} from "./fit-stages.ts";
import { doesNotFit } from "../plan/facts.ts";
import type { SlotInput } from "../plan/input.ts";
import type { DeviceFacts, Learned, Unlearned } from "../plan/learning.ts";
import type { Measured, Reservation } from "../slot-memory.ts";
import { isNotable } from "./memory.ts";
import { withoutReserved } from "./starting-memory.ts";

/** The known memory needs of a slot, why it must not be started, and what must be learned before either is right. */
export interface FitResult {
  readonly fit?: Fit;
  readonly refusal?: EngineRefusal;
  readonly unlearned?: readonly Unlearned[];
}

/** The facts of a slot that decide its needs, and its present memory. */
export interface FitRequest {
  readonly workloads: SlotInput["workloads"];
  readonly engineInput: SlotInputs;
  /** A process that does not run is to be started. */
  readonly isDue: boolean;
  /** Since when the slot is ready: its present memory is its need then. Undefined: not ready. */
  readonly readySince: Date | undefined;
  readonly measured: Measured | undefined;
  /** The memory that other slots are about to take. */
  readonly reserved: readonly Reservation[];
  readonly learned: Learned;
}

/**
 * Figures of memory in stages, each taking precedence over the one before: header, the engine's allocator, the
 * processes themselves. Reads what is there; what is not is learned by steps (`act/learning.ts`).
 */
export class FitRecords {
  readonly #figures: Pick<FitFigureFile, "get">;
  readonly #hardware: () => DeviceFacts;
  readonly #onError: (error: unknown) => void;
  readonly #remote: Pick<RemoteShapes, "known">;
  readonly #shapes: ShapeCache;
  readonly #projectors: ProjectorCache;

  constructor(options: {
    readonly figures: Pick<FitFigureFile, "get">;
    /** As of the last probe. */
    readonly hardware: () => DeviceFacts;
    readonly remote: Pick<RemoteShapes, "known">;
    readonly headers?: HeaderFiles;
    readonly onError: (error: unknown) => void;
  }) {
    this.#shapes = new ShapeCache(options.headers);
    this.#projectors = new ProjectorCache(options.headers);
    this.#figures = options.figures;
    this.#hardware = options.hardware;
    this.#remote = options.remote;
    this.#onError = options.onError;
  }

  /** Never rejects: without a figure nothing is refused, and a start reports a missing file itself. */
  async estimate(request: FitRequest): Promise<FitResult> {
    try {
      return await this.#estimate(request);
    } catch (error) {
      this.#onError(error);
      return {};
    }
  }

  /**
   * Decides about a model that is not on this machine. The model is refused if its header says that it cannot fit; the slot
   * waits while the header is read; else the model is fetched, as `unprepared` says.
   */
  beforeFetch(
    { slot, spec, placement }: SlotInputs,
    unprepared: NonNullable<SlotInput["unprepared"]>,
  ): NonNullable<SlotInput["unprepared"]> | EngineRefusal {
    if (unprepared.state !== "absent" || unprepared.model === undefined) return unprepared;
    if (spec.engine !== "llama" || spec.command !== undefined || placement.isElsewhere === true) return unprepared;
    const { role, model } = unprepared;
    const shape = this.#remote.known(model, slot);
    if (shape === undefined) return unprepared;
    if (shape === "unread") return { ...unprepared, isHeaderUnread: true };
    if (shape === "reading") {
      const message = `the header of the model ${model.ref} is being read`;
      return { state: "fetching", role, model, message, progress: { bytesDone: 0 } };
    }
    const here = { ...spec, backend: placement.backend };
    const refusal = specFit(here, shape, this.#hardware(), placement.backend);
    return refusal === undefined
      ? unprepared
      : { reason: doesNotFit, message: `${refusal.message}; ${model.ref} was not fetched` };
  }

  async #estimate(request: FitRequest): Promise<FitResult> {
    const { workloads, engineInput, isDue } = request;
    const { devices } = request.learned;
    const stamp = await stampOf(engineInput);
    const latest = fitQuestion(workloads, engineInput, this.#hardware(), stamp);
    if (latest === undefined) return {};
    // The free memory of a GPU changes with every start; of the machine's memory only the limit counts.
    const isOfNow = isDue && latest.gpus.length > 0;
    if (isOfNow && devices === "unknown") return {};
    const now = isOfNow && devices !== "unknown" ? devices : undefined;
    const asked = now === undefined ? latest : (fitQuestion(workloads, engineInput, now, stamp) ?? latest);
    const models = await this.#modelsOf(asked);
    const question = { ...asked, beside: besideOf(asked, models) };
    const unlearned =
      isOfNow && now === undefined
        ? [{ do: "measure", of: "devices" } as const]
        : [...this.#unrecorded(request, question), ...this.#unestimated(request, question, models)];
    const more = unlearned.length === 0 ? {} : { unlearned };
    const stages = this.#stagesOf(request, question, models);
    const [best] = stages.toReversed();
    const requirement = reserving(best?.requirement, question.reservedBytes);
    if (requirement === undefined) return more;
    const budgets = withoutReserved(question.budgets, request.reserved, this.#hardware());
    const verdict = judge(requirement, budgets, ownBytes(request, question));
    const refusal = isDue ? refusalOf(verdict, question, models, engineInput) : undefined;
    const refused = refusal === undefined ? {} : { refusal };
    // The reserved memory of the machine says nothing about a GPU.
    if (best === undefined && question.gpus.length > 0) return { ...refused, ...more };
    return { fit: fitOf(verdict, stages, requirement, question), ...refused, ...more };
  }

  /** Undefined where one process has no readable model. */
  async #modelsOf(question: FitQuestion): Promise<readonly KnownModel[] | undefined> {
    const { processes, gpus, defaultContext } = question;
    if (processes.length === 0 || processes.some(({ words }) => isBeyondPrint(words))) return undefined;
    const models: KnownModel[] = [];
    for (const process of processes) {
      const { words, env, files, fingerprint, projector, batchTokens: tokens } = process;
      const shape = await this.#shapes.of(files, fingerprint);
      if (shape === undefined) return undefined;
      const longest = shape.contextLength ?? 4096;
      const contextLength = Math.min(longest, defaultContext ?? longest);
      const plain = settingsOf(words, env, { contextLength, gpus, projectorBytes: 0 });
      const isFlash = plain.hasFlashAttention;
      const projectorBytes = projector === undefined ? 0 : await this.#projectors.bytesOf(projector, isFlash);
      const batch = tokens === undefined ? {} : { batch: tokens, ubatch: tokens };
      const settings = { ...plain, ...batch, projectorBytes };
      models.push({ process, shape, settings, estimate: estimate(shape, settings) });
    }
    return models;
  }

  /** The figures for it, the least reliable first. */
  #stagesOf(
    { learned }: FitRequest,
    question: FitQuestion,
    models: readonly KnownModel[] | undefined,
  ): readonly StageFigure[] {
    const found: StageFigure[] = [];
    const { beside, gpus, key, declared } = question;
    const said = declaredRequirement(declared, gpus[0]?.id);
    if (said !== undefined) found.push({ requirement: said, bytes: totalOf(said, gpus.length > 0) });
    const isPlain = models?.every(({ process }) => !isBeyondHeader(process.words)) === true;
    if (models !== undefined && isPlain)
      found.push(
        figureOf(
          "header",
          models.map((model) => model.estimate),
          beside,
        ),
      );
    const figure = this.#figures.get(key);
    const engine = this.#engineOf(figure?.engine ?? learned.estimates.get(key), models);
    if (engine !== undefined) found.push(figureOf("engine", engine, beside));
    if (figure?.measured !== undefined) {
      const estimates = models?.map((model) => model.estimate) ?? [];
      const requirement = measuredRequirement(onEngineDevices(figure.measured, question, models), estimates, beside);
      found.push({ requirement, bytes: measuredBytes(figure.measured) });
    }
    return found;
  }

  /** The engine's own program can be asked for the figure of a start, and was not yet. */
  #unestimated(
    { isDue, learned }: FitRequest,
    { program, key }: FitQuestion,
    models: readonly KnownModel[] | undefined,
  ): readonly Unlearned[] {
    const isKnown = this.#figures.get(key)?.engine !== undefined || learned.estimates.has(key);
    if (!isDue || isKnown || program === undefined || models === undefined) return [];
    const launches = models.flatMap(({ process: { words, env }, settings, shape }) => {
      const args = printArguments(words, settings, shape);
      return args === undefined ? [] : [{ args, env, settings, shape }];
    });
    return launches.length < models.length ? [] : [{ do: "estimate", key, program, launches }];
  }

  #engineOf(
    texts: readonly string[] | undefined,
    models: readonly KnownModel[] | undefined,
  ): readonly Estimate[] | undefined {
    if (texts === undefined || models?.length !== texts.length) return undefined;
    const found = models.flatMap(
      ({ shape, settings }, index) => engineEstimate(texts[index] ?? "", shape, settings) ?? [],
    );
    return found.length === models.length ? found : undefined;
  }

  /** The most memory that the processes held in any measurement after they had loaded. */
  #unrecorded({ readySince, measured: latest }: FitRequest, { key, gpus }: FitQuestion): readonly Unlearned[] {
    if (readySince === undefined || latest === undefined || latest.at < readySince) return [];
    const { memory } = latest;
    if (memory === undefined) return [];
    if (gpus.length > 0 && memory.devices.length === 0) return [];
    if (gpus.length === 0 && (memory.hostBytes === undefined || memory.devices.length > 0)) return [];
    const before = this.#figures.get(key)?.measured;
    const had = (id: string): number | undefined => before?.find((known) => known.id === id)?.bytes;
    const measured = [
      ...memory.devices.map(({ id, bytes }) => ({ id, bytes: Math.max(bytes, had(id) ?? 0) })),
      ...(memory.hostBytes === undefined ? [] : [{ id: "host", bytes: grownTo(memory.hostBytes, had("host")) }]),
    ];
    return JSON.stringify(measured) === JSON.stringify(before) ? [] : [{ do: "record", key, measured }];
  }
}

function besideOf({ beside, bytesPerToken }: FitQuestion, models: readonly KnownModel[] = []): FitQuestion["beside"] {
  const tokens = models.reduce((sum, { shape }) => sum + shape.vocabulary, 0);
  return { ...beside, processBytes: beside.processBytes + tokens * bytesPerToken };
}

/** Memory of the machine grows and shrinks with each request: a small change is not written. */
function grownTo(bytes: number, before: number | undefined): number {
  return before === undefined || (bytes > before && isNotable(before, bytes)) ? bytes : before;
}

/** The identity of the program, so that a figure of another version is not used; "" where it is gone. */
async function stampOf({ host }: SlotInputs): Promise<string> {
  if (host.llamaServer === undefined) return host.embedded?.join(" ") ?? "";
  const found = await stat(host.llamaServer).catch(() => undefined);
  return found === undefined ? "" : `${host.llamaServer} ${found.size} ${found.mtimeMs}`;
}

/** The memory of its own engine, which is released before the next one starts. */
function ownBytes({ measured }: FitRequest, { gpus }: FitQuestion): ReadonlyMap<string, number> {
  const [only] = gpus;
  const held = (measured?.memory?.devices ?? []).reduce((sum, { bytes }) => sum + bytes, 0);
  return only === undefined || gpus.length > 1 ? new Map() : new Map([[only.id, held]]);
}
