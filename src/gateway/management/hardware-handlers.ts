import { randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";
import type { HardwareView } from "../../api/management/views.ts";
import { isOperatorLost } from "../admission/availability.ts";
import { diskFailure } from "../disk-failure.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { waitUntil } from "./wait.ts";

/** Handlers of what the operator has found of the machine: the gateway reads it, and asks for another look. */
export function hardwareHandlers(context: ManagementContext): Pick<Handlers, "hardware" | "probeHardware"> {
  const { hardware } = context;
  return {
    hardware: () => view(context),
    probeHardware: async ({ query, request }) => {
      // Whoever asks while a look is awaited awaits the same.
      if (hardware.pending() === undefined) {
        const asked = { schema: 1, token: randomUUID(), requestedAt: new Date().toISOString() } as const;
        await hardware.ask(asked).catch((error: unknown) => {
          throw diskFailure(error, "ask for another look");
        });
      }
      if (query.wait !== undefined) await untilAnswered(context, query.timeout * 1000, request);
      return view(context);
    },
  };
}

function view({ hardware }: ManagementContext): HardwareView {
  const found = hardware.found();
  if (found === undefined) {
    throw new ApiError("system.not_found", {
      message: "no operator of this version has looked at this machine yet; the first to start does",
    });
  }
  return { ...found.hardware, pending: hardware.pending() !== undefined };
}

/** Nobody answers while there is no operator: that is told at once. */
async function untilAnswered(
  { hardware, operator, stopping }: ManagementContext,
  patienceMs: number,
  { raw: client }: FastifyRequest,
): Promise<void> {
  if (isOperatorLost(operator())) return;
  const watch = (onChange: () => void): Disposable => hardware.watch(onChange);
  await waitUntil(() => hardware.pending() === undefined, { watch, patienceMs, client, stopping });
}
