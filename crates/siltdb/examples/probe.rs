use siltdb::*;
use std::time::Instant;
fn key(i:u64)->[u8;16]{ let mut k=[0u8;16]; let mut x=i.wrapping_mul(0x9E3779B97F4A7C15); x^=x>>31; k[..8].copy_from_slice(&((i<<20)|(x&0xfffff)).to_be_bytes()); k[8..].copy_from_slice(&x.to_be_bytes()); k}
fn main(){
    let n:u64=std::env::args().nth(1).map_or(100000,|a|a.parse().unwrap());
    let rounds:u64=std::env::args().nth(2).map_or(1,|a|a.parse().unwrap());
    let dir=std::env::temp_dir().join("probe-db"); let _=std::fs::remove_dir_all(&dir);
    let db=Options::new().memtable_bytes(64<<20).memory_budget(320<<20).cache_bytes(64<<20).open(&dir).unwrap();
    let f=db.default_family();
    let mut b=WriteBatch::new();
    let mut x=1u64; let mut v=[0u8;100];
    for i in 0..n { for c in v[..50].chunks_mut(8){ x^=x<<13;x^=x>>7;x^=x<<17; let l=c.len(); c.copy_from_slice(&x.to_le_bytes()[..l]);} b.put(&f,&key(i),&v).unwrap(); }
    let t=Instant::now(); db.write(&b).unwrap(); let w=t.elapsed();
    let t=Instant::now(); db.flush().unwrap(); let fl=t.elapsed();
    let t=Instant::now(); db.settle().unwrap(); println!("write {w:?} flush {fl:?} settle {:?}",t.elapsed());
    let mut perm:Vec<u64>=(0..n).collect(); for i in (1..n as usize).rev(){ x^=x<<13;x^=x>>7;x^=x<<17; perm.swap(i,(x%(i as u64+1)) as usize);}
    for r in 0..rounds {
    let mut sum=0u64;
    let t=Instant::now(); for i in 0..n { f.get_with(&key(i),|v| sum+=v[0] as u64+v[99] as u64).unwrap().unwrap(); } let seq=t.elapsed();
    let t=Instant::now(); for &i in &perm { f.get_with(&key(i),|v| sum+=v[0] as u64+v[99] as u64).unwrap().unwrap(); } let rnd=t.elapsed();
    let mut c=f.cursor().unwrap();
    let t=Instant::now(); for _ in 0..10 {c.seek_to_first().unwrap(); c.walk(u64::MAX,|k,v|{sum+=k[15] as u64+v[0] as u64+v[99] as u64; std::ops::ControlFlow::Continue(())}).unwrap();} let sc=t.elapsed();
    println!("round {r}: seq {:.1} ns rnd {:.1} ns scan {:.2} ns ({sum})",seq.as_nanos() as f64/n as f64,rnd.as_nanos() as f64/n as f64,sc.as_nanos() as f64/n as f64/10.0);
    }
    let s=db.stats(); println!("{s:?}");
}
