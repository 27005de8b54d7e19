import type { JSX } from "preact";
import { useId } from "preact/hooks";
import type { HardwareView, SlotView } from "../../../src/api/management/views.ts";
import { bytes } from "../../shared/format.ts";
import { placesOf, slotColour } from "../colours.ts";
import { deviceMaps, type DeviceMap } from "../device-maps.ts";
import { reading } from "../live.ts";
import { slotPath } from "../router.ts";

/** A bar for each device with the slots that hold its memory. */
export function MemoryMap(props: {
  readonly machine: Partial<HardwareView>;
  readonly slots: readonly SlotView[];
}): JSX.Element {
  const now = reading.value ?? props.machine.now ?? null;
  const maps = deviceMaps(props.machine, props.slots, now);
  const places = placesOf(props.slots.map(({ name }) => name));
  if (maps.length === 0) return <p class="quiet">The memory of this machine is not known.</p>;
  return (
    <div class="memory-map">
      {maps.map(inShort).map(({ more, ...map }) => (
        <section key={map.id} aria-label={`Memory of ${map.name}`}>
          <p class="row">
            <span>{map.name}</span>
            <span class="quiet number">{spoken(map)}</span>
          </p>
          <Bar map={map} places={places} />
          <ul class="legend">
            {map.segments.map(({ slot, kind, bytes: size }) =>
              slot === undefined ? (
                kind === "other" && (
                  <li key={kind}>
                    <span class="swatch other" />
                    Other programs
                    <span class="quiet number">{bytes(size)}</span>
                  </li>
                )
              ) : (
                <li key={slot + kind}>
                  <span class={`swatch ${kind} ${slotColour(places.get(slot))}`} />
                  <a href={slotPath(slot)}>{slot}</a>
                  <span class="quiet number">
                    {kind === "coming" ? "+ " : ""}
                    {bytes(size)}
                  </span>
                </li>
              ),
            )}
          </ul>
          {more > 0 && <p class="quiet">and {more} slots with less</p>}
        </section>
      ))}
    </div>
  );
}

/** More slots than these of one device are one segment: nobody tells them apart. */
const mostSlots = 12;

/** The slots that hold most of a device, and how many others are one segment. */
function inShort(map: DeviceMap): DeviceMap & { readonly more: number } {
  const ofSlots = map.segments.filter(({ slot }) => slot !== undefined);
  if (ofSlots.length <= mostSlots) return { ...map, more: 0 };
  const rest = new Set(ofSlots.toSorted((one, other) => other.bytes - one.bytes).slice(mostSlots));
  const size = [...rest].reduce((sum, segment) => sum + segment.bytes, 0);
  const segments = [
    ...ofSlots.filter((segment) => !rest.has(segment)),
    { kind: "held", bytes: size } as const,
    ...map.segments.filter(({ slot }) => slot === undefined),
  ];
  return { ...map, segments, more: rest.size };
}

function spoken({ segments, total }: DeviceMap): string {
  const free = segments.find(({ kind }) => kind === "free")?.bytes ?? 0;
  return `${bytes(free)} of ${bytes(total)} free`;
}

function Bar({ map, places }: { readonly map: DeviceMap; readonly places: ReadonlyMap<string, number> }): JSX.Element {
  const hatch = useId();
  let at = 0;
  const whole = Math.max(
    map.total,
    map.segments.reduce((sum, segment) => sum + segment.bytes, 0),
  );
  return (
    <svg class="bar" viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true">
      <defs>
        <pattern id={hatch} width="16" height="24" patternUnits="userSpaceOnUse">
          <path d="M0 0h16v24H0z" class="hatched" />
          <path d="M0 24 16 0" class="hatch" />
        </pattern>
      </defs>
      {map.segments.map(({ slot, kind, bytes: size }) => {
        const x = (1000 * at) / whole;
        at += size;
        const width = Math.max(1, (1000 * size) / whole - 2);
        const colour = slot === undefined ? "" : slotColour(places.get(slot));
        if (kind === "other") return <path key={kind} d={`M${x} 0h${width}v24h-${width}z`} fill={`url(#${hatch})`} />;
        return <rect key={`${slot}${kind}`} x={x} y={0} width={width} height={24} class={`${kind} ${colour}`} />;
      })}
    </svg>
  );
}
