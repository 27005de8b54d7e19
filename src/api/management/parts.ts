import { z } from "zod";

/** `?wait=ready&timeout=180`: answers once the slot has settled, after the timeout, or once no operator lives. */
export const waitQuery = z.strictObject({
  wait: z.enum(["ready", "settled"]).optional().describe("Answer only when the slot is ready, or has failed"),
  timeout: z.coerce.number().int().min(1).max(3600).default(180).describe("Seconds to wait"),
});

export const flag = z
  .enum(["0", "1"])
  .default("0")
  .transform((text) => text === "1");

/** A flat spec, or a whole manifest; the spec's own schema checks the fields. */
export const manifestBody = z.record(z.string(), z.json());

/** The largest body that carries manifests: what a request makes a gateway parse must not block other requests for long. */
export const manifestBodyBytes = 128 * 1024;

export const labelsSchema = z.record(z.string(), z.string());
