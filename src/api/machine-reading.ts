import { z } from "zod";

const bytes = z.int().min(0).nullable();
const percent = z.int().min(0).max(100).nullable();

/** How busy a machine is at one moment; null: it cannot be read. */
export const machineReadingSchema = z.strictObject({
  read_at: z.iso.datetime(),
  cpu_percent: percent.describe("All processors together, since the reading before; null: there was none lately"),
  memory: z.strictObject({
    used_bytes: bytes.describe("By all programs, without what the kernel can free at once"),
    free_bytes: bytes.describe("What the kernel can give to programs (MemAvailable)"),
  }),
  gpus: z.array(
    z.strictObject({
      id: z.string().describe("As in `gpus` of `GET /api/hardware`"),
      total_bytes: bytes,
      used_bytes: bytes.describe("Used by all programs, of the GPU's own memory"),
      utilization_percent: percent,
      temperature_celsius: z.int().nullable(),
    }),
  ),
});
export type MachineReading = z.output<typeof machineReadingSchema>;
