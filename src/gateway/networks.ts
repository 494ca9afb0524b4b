// Who a caller is by address: whether it lies in one of the networks that configuration trusts. The address is the
// connection's own; X-Forwarded-For can say anything and is never looked at.
import { BlockList, isIP, isIPv4 } from 'node:net';
import { PointsmanError } from '../plugin/index.ts';

/** Says whether an address lies in the networks; unknown addresses do not. */
export type NetworkCheck = (address: string | undefined) => boolean;

/**
 * A check over CIDR networks or single addresses, IPv4 and IPv6. IPv4-mapped IPv6 addresses count as the IPv4 address.
 * @throws PointsmanError PM_NETWORK_INVALID
 */
export function networkCheck(networks: readonly string[]): NetworkCheck {
  if (networks.length === 0) return () => false;
  const list = new BlockList();
  for (const network of networks) addNetwork(list, network);
  return (address) => {
    if (address === undefined) return false;
    const plain = unmapped(address);
    const family = isIP(plain);
    return family !== 0 && list.check(plain, family === 4 ? 'ipv4' : 'ipv6');
  };
}

function addNetwork(list: BlockList, network: string): void {
  const [address = '', prefix, ...rest] = network.split('/');
  const family = isIP(address);
  const bits = family === 4 ? 32 : 128;
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  if (family === 0 || rest.length > 0 || !(length <= bits)) {
    throw new PointsmanError(
      'PM_NETWORK_INVALID',
      `"${network}" is no network; write an address with an optional prefix length, for example 10.0.0.0/8 or ::1`,
      { details: { network } },
    );
  }
  const plain = unmapped(address);
  // A mapped network is an IPv4 network whose prefix counts the 96 bits in front of it.
  if (family === 6 && isIPv4(plain) && length >= 96) list.addSubnet(plain, length - 96, 'ipv4');
  else list.addSubnet(address, length, family === 4 ? 'ipv4' : 'ipv6');
}

/** The IPv4 address in a mapped one; without an IPv6 zone. */
function unmapped(address: string): string {
  const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i.exec(address);
  return mapped?.[1] ?? address.replace(/%.*$/, '');
}
