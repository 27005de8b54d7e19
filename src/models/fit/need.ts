import type { FitStage } from "../../api/fit.ts";
import { sumOf, type DeviceNeed, type Estimate } from "./estimate.ts";

/** The memory that is needed on one device, with the parts of the sum for messages. */
export interface Need {
  /** `host`, or the engine's name for a GPU. */
  readonly id: string;
  readonly bytes: number;
  /** The part in mapped files: the kernel may drop and read these again, so a lack of memory makes an engine slow. */
  readonly mappedBytes: number;
  readonly parts: readonly { readonly name: string; readonly bytes: number }[];
}

/** The memory that an engine needs on every device, from one stage of the estimate. */
export interface Requirement {
  readonly stage: FitStage;
  readonly needs: readonly Need[];
}

/** The memory of an engine in addition to its model. */
export interface Beside {
  /** The size of the program and its libraries. */
  readonly processBytes: number;
  /** The limit of its cache of earlier prompts. */
  readonly promptCacheBytes: number;
}

/** The need from an estimate. Mapped weights with rearranged copies in the engine need not stay in memory. */
export function requirementOf(estimate: Estimate, beside: Beside, stage: "header" | "engine"): Requirement {
  const { host, gpus, mappedBytes, unusedMappedBytes } = estimate;
  const own = { ...host, weights: host.weights - unusedMappedBytes };
  return {
    stage,
    needs: [
      ...gpus.map((gpu) => needOf(gpu, 0, [])),
      needOf(own, mappedBytes - unusedMappedBytes, [
        { name: "kept prompts", bytes: beside.promptCacheBytes },
        { name: "program", bytes: beside.processBytes },
      ]),
    ],
  };
}

function needOf(device: DeviceNeed, mappedBytes: number, more: Need["parts"]): Need {
  const parts = [
    { name: "weights", bytes: device.weights },
    { name: "context", bytes: device.cache },
    { name: "work", bytes: device.compute + device.output },
    { name: "driver", bytes: device.driver },
    ...more,
  ].filter(({ bytes }) => bytes > 0);
  return { id: device.id, bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0), mappedBytes, parts };
}

/**
 * The most memory that processes with the model were seen to hold. Of their prompt cache, the part is added that may still
 * be empty: all of it, less what the estimate does not explain.
 */
export function measuredRequirement(
  measured: readonly { readonly id: string; readonly bytes: number }[],
  estimated: readonly Estimate[],
  { promptCacheBytes, processBytes }: Beside,
): Requirement {
  const sum = (bytesOf: (estimate: Estimate) => number): number =>
    estimated.reduce((all, one) => all + bytesOf(one), 0);
  const unusedBytes = sum(({ unusedMappedBytes }) => unusedMappedBytes);
  const mappedBytes = sum((one) => one.mappedBytes) - unusedBytes;
  const explainedBytes = sum(({ host }) => sumOf(host)) + processBytes;
  return {
    stage: "measured",
    needs: measured.map(({ id, bytes }) => {
      if (id !== "host") return { id, bytes, mappedBytes: 0, parts: [{ name: "measured", bytes }] };
      const kept = Math.max(0, bytes - unusedBytes);
      const cached = estimated.length === 0 ? 0 : Math.max(0, bytes - explainedBytes);
      const parts = [
        { name: "measured", bytes: kept },
        { name: "kept prompts", bytes: Math.max(0, promptCacheBytes - cached) },
      ].filter((part) => part.bytes > 0);
      const whole = parts.reduce((all, part) => all + part.bytes, 0);
      return { id, bytes: whole, mappedBytes: Math.min(mappedBytes, kept), parts };
    }),
  };
}

/** The need that a manifest or the catalogue declares. */
export function declaredRequirement(
  { memoryBytes, gpuBytes }: { readonly memoryBytes: number | undefined; readonly gpuBytes: number | undefined },
  gpu: string | undefined,
): Requirement | undefined {
  const need = (id: string, bytes: number): Need => ({
    id,
    bytes,
    mappedBytes: 0,
    parts: [{ name: "declared", bytes }],
  });
  const needs = [
    ...(gpu === undefined || gpuBytes === undefined ? [] : [need(gpu, gpuBytes)]),
    ...(memoryBytes === undefined ? [] : [need("host", memoryBytes)]),
  ];
  return needs.length === 0 ? undefined : { stage: "declared", needs };
}

/** The name of the part of a need that the manifest reserves, and what a person changes where it does not fit. */
export const reservedPart = "resources.memoryBytes";
export const reserveLess = "lower resources.memoryBytes of the slot to what it needs";

/**
 * The requirement with the machine's memory that the slot's manifest reserves, where it is more than the figure.
 * Undefined where nothing is known and nothing reserved.
 */
export function reserving(known: Requirement | undefined, bytes: number | undefined): Requirement | undefined {
  const host = known?.needs.find(({ id }) => id === "host");
  if (bytes === undefined || (host?.bytes ?? 0) >= bytes) return known;
  const reserved = { id: "host", bytes, mappedBytes: 0, parts: [{ name: reservedPart, bytes }] };
  const others = known?.needs.filter(({ id }) => id !== "host") ?? [];
  return { stage: known?.stage ?? "declared", needs: [...others, reserved] };
}

/** The need of several processes together. */
export function combined(stage: FitStage, requirements: readonly Requirement[]): Requirement {
  const needs = new Map<string, Need>();
  for (const need of requirements.flatMap((requirement) => requirement.needs)) {
    const before = needs.get(need.id);
    needs.set(need.id, before === undefined ? need : added(before, need));
  }
  return { stage, needs: [...needs.values()] };
}

function added(one: Need, other: Need): Need {
  const names = new Set([...one.parts, ...other.parts].map(({ name }) => name));
  const part = (need: Need, name: string): number => need.parts.find((known) => known.name === name)?.bytes ?? 0;
  return {
    id: one.id,
    bytes: one.bytes + other.bytes,
    mappedBytes: one.mappedBytes + other.mappedBytes,
    parts: [...names].map((name) => ({ name, bytes: part(one, name) + part(other, name) })),
  };
}
