import type { Bar } from "./bar.ts";
import { auth } from "./bars/auth.ts";
import { bodies } from "./bars/bodies.ts";
import { chat } from "./bars/chat.ts";
import { commands } from "./bars/commands.ts";
import { cold } from "./bars/cold.ts";
import { crash } from "./bars/crash.ts";
import { drift } from "./bars/drift.ts";
import { idle } from "./bars/idle.ts";
import { latency } from "./bars/latency.ts";
import { leaving } from "./bars/leaving.ts";
import { manifest } from "./bars/manifest.ts";
import { resync } from "./bars/resync.ts";
import { slowReaders } from "./bars/slow.ts";
import { streams } from "./bars/streams.ts";

/** Every bar, in the order in which they run. */
export const bars: readonly Bar[] = [
  chat,
  latency,
  streams,
  cold,
  bodies,
  slowReaders,
  drift,
  idle,
  manifest,
  resync,
  crash,
  leaving,
  commands,
  auth,
];
