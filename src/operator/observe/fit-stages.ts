import type { Fit, FitStage } from "../../api/fit.ts";
import type { EngineRefusal, SlotInputs } from "../../engines/engine.ts";
import { sumOf, type Estimate } from "../../models/fit/estimate.ts";
import { combined, requirementOf, reserveLess, type Requirement } from "../../models/fit/need.ts";
import type { FitSettings } from "../../models/fit/settings.ts";
import type { ModelShape } from "../../models/fit/shape.ts";
import { smaller, smallerText } from "../../models/fit/smaller.ts";
import type { Verdict } from "../../models/fit/verdict.ts";
import { doesNotFit, memoryReserved, noMemory } from "../plan/facts.ts";
import type { FitQuestion, LaunchedModel } from "./fit-question.ts";

/** One process's model with the facts of its header. */
export interface KnownModel {
  readonly process: LaunchedModel;
  readonly shape: ModelShape;
  readonly settings: FitSettings;
  readonly estimate: Estimate;
}

/** One stage's figure. `bytes` is compared with measurements: of GPUs where there are some, else of the host. */
export interface StageFigure {
  readonly requirement: Requirement;
  readonly bytes: number;
}

export function figureOf(
  stage: "header" | "engine",
  estimates: readonly Estimate[],
  beside: FitQuestion["beside"],
): StageFigure {
  const each = {
    processBytes: beside.processBytes / estimates.length,
    promptCacheBytes: beside.promptCacheBytes / estimates.length,
  };
  const bytes = estimates.reduce(
    (sum, { host, gpus }) =>
      sum + (gpus.length === 0 ? sumOf(host) + each.processBytes : gpus.reduce((all, gpu) => all + sumOf(gpu), 0)),
    0,
  );
  return {
    requirement: combined(
      stage,
      estimates.map((one) => requirementOf(one, each, stage)),
    ),
    bytes,
  };
}

export function totalOf({ needs }: Requirement, hasGpu: boolean): number {
  return needs.reduce((sum, { id, bytes }) => sum + (hasGpu === (id === "host") ? 0 : bytes), 0);
}

export function measuredBytes(measured: readonly { readonly id: string; readonly bytes: number }[]): number {
  const devices = measured.filter(({ id }) => id !== "host");
  return (devices.length > 0 ? devices : measured).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** GPUs are measured by address, and named by the engine: of several, each counts with its estimated part. */
export function onEngineDevices(
  measured: readonly { readonly id: string; readonly bytes: number }[],
  { gpus }: FitQuestion,
  models: readonly KnownModel[] | undefined,
): readonly { readonly id: string; readonly bytes: number }[] {
  const host = measured.filter(({ id }) => id === "host");
  const whole = measured.reduce((sum, { id, bytes }) => sum + (id === "host" ? 0 : bytes), 0);
  const part = (id: string): number =>
    (models ?? []).reduce((sum, model) => {
      const gpu = model.estimate.gpus.find((known) => known.id === id);
      return sum + (gpu === undefined ? 0 : sumOf(gpu));
    }, 0);
  const parts = gpus.map(({ id, share }) => ({ id, part: part(id) || share }));
  const all = parts.reduce((sum, one) => sum + one.part, 0);
  return [...parts.map((one) => ({ id: one.id, bytes: Math.round((whole * one.part) / all) })), ...host];
}

export function refusalOf(
  { kind, isReserved, isByManifest, message }: Verdict,
  { budgets, beside }: FitQuestion,
  models: readonly KnownModel[] | undefined,
  { spec }: SlotInputs,
): EngineRefusal | undefined {
  if (kind === "fits" || kind === "unknown" || spec.model.spill === "allow") return undefined;
  if (kind === "busy") return { reason: isReserved === true ? memoryReserved : noMemory, message };
  if (isByManifest === true) return { reason: doesNotFit, message: `${message}; ${reserveLess}` };
  const [model] = models ?? [];
  const less = model === undefined ? {} : smaller(model.shape, model.settings, budgets, beside);
  const advice = smallerText(less) ?? "a smaller model or quantisation may fit";
  return { reason: doesNotFit, message: `${message}; ${advice}` };
}

export function fitOf(
  verdict: Verdict,
  stages: readonly StageFigure[],
  { stage, needs }: Requirement,
  { budgets }: FitQuestion,
): Fit {
  const measured = stages.find(({ requirement }) => requirement.stage === "measured")?.bytes;
  const error = (stage: FitStage, bytes: number): { readonly errorRatio: number } | undefined =>
    measured === undefined || measured === 0 || stage === "measured"
      ? undefined
      : { errorRatio: Math.round((bytes / measured - 1) * 10_000) / 10_000 };
  const estimated = stages.findLast(({ requirement }) => requirement.stage !== "measured");
  return {
    stage,
    device: verdict.device,
    needBytes: Math.round(verdict.needBytes),
    ...(verdict.budgetBytes === undefined ? {} : { budgetBytes: verdict.budgetBytes }),
    ...(estimated === undefined ? {} : error(estimated.requirement.stage, estimated.bytes)),
    devices: needs.map(({ id, bytes }) => {
      const budget = budgets.find((known) => known.id === id)?.totalBytes;
      return { id, needBytes: Math.round(bytes), ...(budget === undefined ? {} : { budgetBytes: budget }) };
    }),
    stages: stages.map(({ requirement, bytes }) => ({
      stage: requirement.stage,
      needBytes: Math.round(bytes),
      ...error(requirement.stage, bytes),
    })),
  };
}
