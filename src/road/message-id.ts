// Under which message id the hints of a booking go out. Engines report late, so each booking has an id of its own.
import type { RoadRequest } from './types.ts';

/**
 * The request's id; of the leg that helps it, `ID/ROLE`. Later bookings of either append their number: `ID/2`, `ID/prefill/2`.
 * @param booking number of the booking among those of the request or leg, from 1.
 */
export function messageIdOf(request: RoadRequest, booking: number): string {
  const { requestId, role } = request;
  const own = request.leg?.aside === true ? `${requestId}/${role}` : requestId;
  return booking > 1 ? `${own}/${booking}` : own;
}
