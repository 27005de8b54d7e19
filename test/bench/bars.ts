import type { Bar } from "./bar.ts";
import { accept } from "./bars/accept.ts";
import { auth } from "./bars/auth.ts";
import { bodies } from "./bars/bodies.ts";
import { chat } from "./bars/chat.ts";
import { commands } from "./bars/commands.ts";
import { cold } from "./bars/cold.ts";
import { crash } from "./bars/crash.ts";
import { drift } from "./bars/drift.ts";
import { idle } from "./bars/idle.ts";
import { k8s } from "./bars/k8s.ts";
import { latency } from "./bars/latency.ts";
import { leaving } from "./bars/leaving.ts";
import { manifest } from "./bars/manifest.ts";
import { models } from "./bars/models.ts";
import { pull } from "./bars/pull.ts";
import { resync } from "./bars/resync.ts";
import { scrape } from "./bars/scrape.ts";
import { slowReaders } from "./bars/slow.ts";
import { telemetry } from "./bars/telemetry.ts";
import { streams } from "./bars/streams.ts";

/** Every bar, in the order in which they run. */
export const bars: readonly Bar[] = [
  chat,
  latency,
  streams,
  accept,
  cold,
  bodies,
  slowReaders,
  drift,
  idle,
  manifest,
  resync,
  scrape,
  telemetry,
  crash,
  leaving,
  commands,
  auth,
  pull,
  models,
  k8s,
];
