import { randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";
import type { HardwareView } from "../../api/management/views.ts";
import { managementFailure } from "../http/disk-failure.ts";
import type { Handlers } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { waitUntil, watchOperator } from "./wait.ts";

/** Handlers of the machine's hardware: the gateway reads the operator's result, and requests another probe. */
export function hardwareHandlers(context: ManagementContext): Pick<Handlers, "hardware" | "probeHardware"> {
  const { hardware } = context;
  return {
    hardware: async () => await view(context),
    probeHardware: async ({ query, request }) => {
      // Requests during a pending probe wait for the same result.
      if (hardware.pending() === undefined) {
        const probeRequest = { schema: 1, token: randomUUID(), requestedAt: new Date().toISOString() } as const;
        await hardware.requestProbe(probeRequest).catch((error: unknown) => {
          throw managementFailure(error, "request another probe");
        });
      }
      if (query.wait !== undefined) await untilAnswered(context, query.timeout * 1000, request);
      return await view(context);
    },
  };
}

async function view({ hardware, readings }: ManagementContext): Promise<HardwareView> {
  const found = hardware.found();
  if (found === undefined) {
    throw new ApiError("system.not_found", {
      message: "no operator of this version has probed this machine yet; the first to start does",
    });
  }
  const now = (await readings?.now()) ?? null;
  return { ...found.hardware, pending: hardware.pending() !== undefined, now };
}

/** Without an operator, and with a paused one, nobody answers: that is reported at once. */
async function untilAnswered(
  { hardware, operator, operatorLiveness, stopping }: ManagementContext,
  timeoutMs: number,
  { raw: client }: FastifyRequest,
): Promise<void> {
  if (operatorLiveness() !== "live" || operator()?.isPaused === true) return;
  const watch = watchOperator((onChange) => hardware.watch(onChange));
  const isOver = (): boolean => hardware.pending() === undefined || operatorLiveness() !== "live";
  await waitUntil(isOver, { watch, timeoutMs, client, stopping });
}
